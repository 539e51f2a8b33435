// Fedplug>TopKResidual on the CPU: check, allocate, call the core.
#include "core/topk_residual.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_arguments.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class TopKResidualOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    TopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    const auto& update = arguments.update;
    IntraOpPool pool(context);
    std::int64_t non_finite = 0;
    const Status status = TopKResidual(
        update.delta, update.residual_in, update.residual_out, update.n,
        arguments.k, policy_, pool, MutableElements<T>(arguments.values),
        arguments.indices->template flat<std::int32_t>().data(), &non_finite);
    OP_REQUIRES_OK(context, ToTensorFlow(status));
    arguments.non_finite->template scalar<std::int64_t>()() = non_finite;
  }
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
