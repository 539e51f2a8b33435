// Fedplug>ScatterDecodeAdd on the CPU: check, allocate, call the core.
#include <algorithm>
#include <cstdint>

#include "core/scatter_decode.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/scatter_decode_add_inputs.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class ScatterDecodeAddOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckScatterDecodeAddInputs(context));
    const Tensor& accumulator = context->input(0);
    const Tensor& values = context->input(1);
    const Tensor& indices = context->input(2);
    const Tensor& row_splits = context->input(3);
    const Tensor& weights = context->input(4);
    // A payload may be refused only while the accumulator is untouched, and the
    // core promises just that; so the accumulator's own buffer can be handed
    // over at once.
    Tensor* sum;
    OP_REQUIRES_OK(context, ForwardInputOrAllocateOutput(
                                context, 0, 0, accumulator.shape(), &sum));
    if (!sum->SharesBufferWith(accumulator)) {
      std::copy_n(accumulator.flat<T>().data(), accumulator.NumElements(),
                  sum->flat<T>().data());
    }
    IntraOpPool pool(context);
    const Status status = ScatterDecodeAdd(
        MutableElements<T>(sum), sum->NumElements(), Elements<T>(values),
        indices.flat<std::int32_t>().data(), values.NumElements(),
        row_splits.flat<std::int64_t>().data(), weights.NumElements(),
        Elements<T>(weights), pool);
    OP_REQUIRES_OK(context, ToTensorFlow(status));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecodeAdd")    \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          ScatterDecodeAddOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
