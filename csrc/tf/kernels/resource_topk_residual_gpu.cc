// Fedplug>ResourceTopKResidual on a GPU: lock, check, allocate, queue on the
// op's stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/copy.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/resource_topk_residual.h"
#include "tf/kernels/status.h"

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
    Scratch reports;
    OP_REQUIRES_OK(
        context, reports.Allocate(
                     context, call.updates.size() * sizeof(cuda::TopKReport)));
    OP_REQUIRES_OK(context, call.counts.a_k_each
                                ? SelectWithKs(context, call, &reports)
                                : SelectWithOneK(context, call, &reports));
    OP_REQUIRES_OK(context,
                   ToTensorFlow(Judge(StreamOf(context), call, &reports)));
    call.residuals.Commit();
  }

 private:
  using Call = ResourceTopKResidualCall<T>;

  tensorflow::Status SelectWithOneK(OpKernelContext* context, const Call& call,
                                    Scratch* reports) const {
    const auto tensors = static_cast<std::int64_t>(call.updates.size());
    Scratch workspace, row_splits;
    TF_RETURN_IF_ERROR(workspace.Allocate(
        context,
        cuda::GroupedTopKResidualWorkspaceBytes(call.updates.data(), tensors)));
    TF_RETURN_IF_ERROR(
        row_splits.Allocate(context, call.row_splits->TotalBytes()));
    CUstream_st* const stream = StreamOf(context);
    TF_RETURN_IF_ERROR(ToTensorFlow(cuda::GroupedTopKResidual(
        call.updates.data(), tensors, call.counts.ks[0], policy_,
        workspace.As<void>(), workspace.bytes(),
        MutableElements<T>(call.values),
        call.indices->template flat<std::int32_t>().data(),
        row_splits.As<std::int64_t>(), reports->As<cuda::TopKReport>(),
        stream)));
    return ToTensorFlow(
        cuda::Fetch(call.row_splits->template flat<std::int64_t>().data(),
                    row_splits.As<void>(), row_splits.bytes(), stream));
  }

  tensorflow::Status SelectWithKs(OpKernelContext* context, const Call& call,
                                  Scratch* reports) const {
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
        reports->As<cuda::TopKReport>(), StreamOf(context)));
  }

  // Waits for the reports of the GPU: the op may have to fail, and the host
  // adds up the dropped sums.
  Status Judge(CUstream_st* stream, const Call& call, Scratch* reports) const {
    std::vector<cuda::TopKReport> found(call.updates.size());
    if (Status status = cuda::Fetch(found.data(), reports->As<void>(),
                                    reports->bytes(), stream);
        !status.ok()) {
      return status;
    }
    std::vector<std::int64_t> sizes;
    for (const auto& update : call.updates) sizes.push_back(update.n);
    std::int64_t& dropped = call.non_finite->template scalar<std::int64_t>()() =
        0;
    for (const cuda::TopKReport& report : found) dropped += report.non_finite;
    return cuda::ToStatus(found, sizes, policy_);
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
