// Fedplug>TopKResidual on the CPU: check, allocate, call the core.
#include "core/topk_residual.h"

#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
class TopKResidualOp : public OpKernel {
 public:
  explicit TopKResidualOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, GetNonFinitePolicy(context, &policy_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckTopKResidualInputs(context));
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    const std::int64_t k = context->input(2).scalar<std::int64_t>()();
    const std::int64_t n = delta.NumElements();

    const TensorShape selected({std::min(k, n)});
    Tensor *values, *indices, *new_residual, *non_finite_tensor;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, selected, &values));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, selected, &indices));
    OP_REQUIRES_OK(context,
                   ForwardInputOrAllocateOutput(context, 1, 2, residual.shape(),
                                                &new_residual));
    OP_REQUIRES_OK(context,
                   context->allocate_output(3, {}, &non_finite_tensor));

    IntraOpPool pool(context);
    std::int64_t non_finite = 0;
    const Status status =
        TopKResidual(Elements<T>(delta), Elements<T>(residual),
                     MutableElements<T>(new_residual), n, k, policy_, pool,
                     MutableElements<T>(values),
                     indices->flat<std::int32_t>().data(), &non_finite);
    OP_REQUIRES_OK(context, ToTensorFlow(status));
    non_finite_tensor->scalar<std::int64_t>()() = non_finite;
  }

 private:
  NonFinitePolicy policy_;
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>TopKResidual")        \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          TopKResidualOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
