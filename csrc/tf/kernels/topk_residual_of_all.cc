// Fedplug>TopKResidualOfAll on the CPU: check, allocate, call the core.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
class TopKResidualOfAllOp : public OpKernel {
 public:
  explicit TopKResidualOfAllOp(OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, GetNonFinitePolicy(context, &policy_));
  }

  void Compute(OpKernelContext* context) override {
    OpInputList deltas, residuals;
    OP_REQUIRES_OK(context, context->input_list("deltas", &deltas));
    OP_REQUIRES_OK(context, context->input_list("residuals", &residuals));
    const int tensors = deltas.size();
    OP_REQUIRES_OK(context, CheckTopKListInputs(deltas, residuals));
    OP_REQUIRES_OK(context, CheckTopKCount(context->input(2 * tensors)));
    const std::int64_t k = context->input(2 * tensors).scalar<std::int64_t>()();

    std::int64_t n = 0;
    std::vector<TensorUpdate<CoreType<T>>> updates;
    for (int t = 0; t < tensors; ++t) {
      Tensor* new_residual;
      OP_REQUIRES_OK(context, ForwardInputOrAllocateOutput(
                                  context, tensors + t, 3 + t,
                                  residuals[t].shape(), &new_residual));
      updates.push_back({Elements<T>(deltas[t]), Elements<T>(residuals[t]),
                         MutableElements<T>(new_residual),
                         deltas[t].NumElements()});
      n += deltas[t].NumElements();
    }
    const TensorShape selected({std::min(k, n)});
    Tensor *values, *indices, *row_splits, *non_finite_tensor;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, selected, &values));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, selected, &indices));
    OP_REQUIRES_OK(context,
                   context->allocate_output(2, {tensors + 1}, &row_splits));
    OP_REQUIRES_OK(
        context, context->allocate_output(3 + tensors, {}, &non_finite_tensor));

    IntraOpPool pool(context);
    std::int64_t non_finite = 0;
    const Status status =
        TopKResidualOfAll(updates, k, policy_, pool, MutableElements<T>(values),
                          indices->flat<std::int32_t>().data(),
                          row_splits->flat<std::int64_t>().data(), &non_finite);
    OP_REQUIRES_OK(context, ToTensorFlow(status));
    non_finite_tensor->scalar<std::int64_t>()() = non_finite;
  }

 private:
  NonFinitePolicy policy_;
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>TopKResidualOfAll")   \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          TopKResidualOfAllOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
