// Fedplug>ResourceTopKResidual on the CPU: lock, check, allocate, call the
// core.
#include "tf/kernels/resource_topk_residual.h"

#include <cstdint>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class ResourceTopKResidualOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    ResourceTopKResidualCall<T> call;
    OP_REQUIRES_OK(context, call.Open(context));
    IntraOpPool pool(context);
    const auto select = [&](const auto& k) {
      return GroupedTopKResidual(
          call.updates, k, policy_, pool, MutableElements<T>(call.values),
          call.indices->template flat<std::int32_t>().data(),
          call.row_splits->template flat<std::int64_t>().data(),
          call.non_finite->template flat<std::int64_t>().data());
    };
    OP_REQUIRES_OK(context, ToTensorFlow(call.counts.a_k_each
                                             ? select(call.counts.ks)
                                             : select(call.counts.ks[0])));
    call.residuals.Commit();
  }
};

#define FEDPLUG_REGISTER(T)                                    \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ResourceTopKResidual") \
                              .Device(tensorflow::DEVICE_CPU)  \
                              .TypeConstraint<T>("T"),         \
                          ResourceTopKResidualOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
