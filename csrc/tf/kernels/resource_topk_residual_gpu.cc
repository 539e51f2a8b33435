// Fedplug>ResourceTopKResidual on a GPU: lock, check, allocate, queue on the
// op's stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/resource_topk_residual.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_reports_gpu.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class ResourceTopKResidualGpuOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    Call call;
    OP_REQUIRES_OK(context, call.Open(context));
    TopKReports reports;
    OP_REQUIRES_OK(context, reports.Allocate(context, call.updates.size(),
                                             !call.counts.a_k_each));
    OP_REQUIRES_OK(context, call.counts.a_k_each
                                ? SelectWithKs(context, call, &reports)
                                : SelectWithOneK(context, call, &reports));
    OP_REQUIRES_OK(
        context,
        reports.Fetch(call.updates, policy_,
                      call.row_splits->template flat<std::int64_t>().data(),
                      call.non_finite->template scalar<std::int64_t>().data(),
                      StreamOf(context)));
    call.residuals.Commit();
  }

 private:
  using Call = ResourceTopKResidualCall<T>;

  tensorflow::Status SelectWithOneK(OpKernelContext* context, const Call& call,
                                    TopKReports* reports) const {
    const auto tensors = static_cast<std::int64_t>(call.updates.size());
    Scratch workspace;
    TF_RETURN_IF_ERROR(workspace.Allocate(
        context,
        cuda::GroupedTopKResidualWorkspaceBytes(call.updates.data(), tensors)));
    return ToTensorFlow(cuda::GroupedTopKResidual(
        call.updates.data(), tensors, call.counts.ks[0], policy_,
        workspace.As<void>(), workspace.bytes(),
        MutableElements<T>(call.values),
        call.indices->template flat<std::int32_t>().data(),
        reports->row_splits(), reports->reports(), StreamOf(context)));
  }

  tensorflow::Status SelectWithKs(OpKernelContext* context, const Call& call,
                                  TopKReports* reports) const {
    auto row_splits = call.row_splits->template flat<std::int64_t>();
    row_splits(0) = 0;
    std::vector<cuda::TopKTensor<CoreType<T>>> tensors;
    for (std::size_t t = 0; t < call.updates.size(); ++t) {
      const auto& update = call.updates[t];
      const std::int64_t k = call.counts.ks[t];
      const auto row = static_cast<std::int64_t>(t);
      const std::int64_t begin = row_splits(row);
      tensors.push_back(
          {update.delta, update.residual_in, update.residual_out, update.n, k,
           MutableElements<T>(call.values) + begin,
           call.indices->template flat<std::int32_t>().data() + begin});
      row_splits(row + 1) = begin + std::min(k, update.n);
    }
    const auto count = static_cast<std::int64_t>(tensors.size());
    Scratch workspace;
    TF_RETURN_IF_ERROR(workspace.Allocate(
        context, cuda::TopKResidualWorkspaceBytes(tensors.data(), count)));
    return ToTensorFlow(cuda::TopKResidual(
        tensors.data(), count, policy_, workspace.As<void>(), workspace.bytes(),
        reports->reports(), StreamOf(context)));
  }
};

#define FEDPLUG_REGISTER(T)                                    \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ResourceTopKResidual") \
                              .Device(tensorflow::DEVICE_GPU)  \
                              .HostMemory("residuals")         \
                              .HostMemory("k")                 \
                              .HostMemory("row_splits")        \
                              .HostMemory("nonfinite")         \
                              .TypeConstraint<T>("T"),         \
                          ResourceTopKResidualGpuOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
