// Fedplug>ThresholdResidual on the CPU: check, allocate, call the core.
#include "core/threshold_residual.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class ThresholdResidualOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    OP_REQUIRES_OK(context, RequireSameShape(delta, residual));
    OP_REQUIRES_OK(context, RequireScalar(context->input(2), "threshold"));
    // Not the residual's own buffer: writing there would require another walk
    // that checks every sum first.
    Tensor* new_residual;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 2, residual.shape(), &new_residual));
    IntraOpPool pool(context);
    ThresholdSelection<CoreType<T>> selection;
    std::int64_t non_finite;
    OP_REQUIRES_OK(context,
                   ToTensorFlow(selection.Run(
                       Elements<T>(delta), Elements<T>(residual),
                       MutableElements<T>(new_residual), delta.NumElements(),
                       *Elements<T>(context->input(2)), pool, &non_finite)));

    Tensor *values, *indices;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 0, {selection.count()}, &values));
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 1, {selection.count()}, &indices));
    selection.Write(pool, MutableElements<T>(values),
                    indices->flat<std::int32_t>().data());
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ThresholdResidual")   \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          ThresholdResidualOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
