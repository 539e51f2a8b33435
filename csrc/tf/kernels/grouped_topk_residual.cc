// Fedplug>GroupedTopKResidual on the CPU: check, allocate, call the core.
#include "tf/kernels/grouped_topk_residual.h"

#include <cstdint>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class GroupedTopKResidualOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    GroupedTopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    IntraOpPool pool(context);
    std::int64_t non_finite = 0;
    const Status status = GroupedTopKResidual(
        arguments.updates, arguments.k, policy_, pool,
        MutableElements<T>(arguments.values),
        arguments.indices->template flat<std::int32_t>().data(),
        arguments.row_splits->template flat<std::int64_t>().data(),
        &non_finite);
    OP_REQUIRES_OK(context, ToTensorFlow(status));
    arguments.non_finite->template scalar<std::int64_t>()() = non_finite;
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>GroupedTopKResidual") \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          GroupedTopKResidualOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
