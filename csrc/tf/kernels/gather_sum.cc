// Fedplug>GatherSum and Fedplug>TakeFromSum on the CPU: check, allocate, call
// the core.
#include "core/gather_sum.h"

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
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class GatherSumOp : public OpKernel {
 public:
  explicit GatherSumOp(OpKernelConstruction* context) : OpKernel(context) {
    int addends;
    OP_REQUIRES_OK(context, context->GetAttr("N", &addends));
    OP_REQUIRES(context, addends <= 2,
                tensorflow::errors::InvalidArgument(
                    "there are ", addends, " addends; give one or two"));
    has_residual_ = addends == 2;
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& delta = context->input(0);
    const CoreType<T>* residual = nullptr;
    if (has_residual_) {
      OP_REQUIRES_OK(context, RequireSameShape(delta, context->input(1)));
      residual = Elements<T>(context->input(1));
    }
    const Tensor& indices = context->input(has_residual_ ? 2 : 1);
    OP_REQUIRES_OK(context, RequireVector(indices, "indices"));
    Tensor* values;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 0, indices.shape(), &values));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(
        context, ToTensorFlow(GatherSum(
                     Elements<T>(delta), residual, delta.NumElements(),
                     indices.flat<std::int32_t>().data(), indices.NumElements(),
                     pool, MutableElements<T>(values))));
  }

 private:
  bool has_residual_ = false;
};

template <typename T>
class TakeFromSumOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    const Tensor& indices = context->input(2);
    OP_REQUIRES_OK(context, RequireSameShape(delta, residual));
    OP_REQUIRES_OK(context, RequireVector(indices, "indices"));
    Tensor *values, *new_residual;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 0, indices.shape(), &values));
    // Not the residual's own buffer: writing there would require another walk
    // that checks every sum first.
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 1, residual.shape(), &new_residual));
    IntraOpPool pool(context);
    std::int64_t non_finite;
    OP_REQUIRES_OK(
        context, ToTensorFlow(TakeFromSum(
                     Elements<T>(delta), Elements<T>(residual),
                     MutableElements<T>(new_residual), delta.NumElements(),
                     indices.flat<std::int32_t>().data(), indices.NumElements(),
                     pool, MutableElements<T>(values), &non_finite)));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>GatherSum")           \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          GatherSumOp<T>);                    \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>TakeFromSum")         \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          TakeFromSumOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
