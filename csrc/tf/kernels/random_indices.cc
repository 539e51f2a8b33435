// Fedplug>DrawIndices on the CPU: check, allocate, call the core.
#include "core/random_indices.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class DrawIndicesOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    std::int64_t seed, count, size;
    OP_REQUIRES_OK(context, ReadScalar(context->input(0), "seed", &seed));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "count", &count));
    OP_REQUIRES_OK(context, ReadScalar(context->input(2), "size", &size));
    OP_REQUIRES_OK(context, ToTensorFlow(CheckDraw(count, size)));
    Tensor* indices;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &indices));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(context, ToTensorFlow(DrawIndices(
                                static_cast<std::uint64_t>(seed), count, size,
                                pool, indices->flat<std::int32_t>().data())));
  }
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>DrawIndices").Device(tensorflow::DEVICE_CPU), DrawIndicesOp);

}  // namespace
}  // namespace fedplug
