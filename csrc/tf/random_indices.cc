// Fedplug>DrawIndices on the CPU. core/random_numbers.h specifies which indices are drawn.
#include <cstdint>

#include "core/random_numbers.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

tensorflow::Status DrawIndicesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {0, 0, 0}));
  return SetVectorOutput(c, 1);
}

REGISTER_OP("Fedplug>DrawIndices")
    .Input("seed: int64")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .SetShapeFn(DrawIndicesShape);

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
                                pool, MutableElements<std::int32_t>(indices))));
  }
};

FEDPLUG_REGISTER_CPU("Fedplug>DrawIndices", DrawIndicesOp);

}  // namespace
}  // namespace fedplug
