// Fedplug>GroupedTopKResidual on a GPU: check, allocate, queue on the op's
// stream.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/runtime.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/element_type.h"
#include "tf/gpu.h"
#include "tf/inputs.h"
#include "tf/topk_residual.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class GroupedTopKResidualGpuOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    GroupedTopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    const Updates& updates = arguments.updates;
    const int tensors = static_cast<int>(updates.size());
    Scratch workspace, reports;
    OP_REQUIRES_OK(
        context,
        workspace.Allocate(context, cuda::GroupedTopKResidualWorkspaceBytes(
                                        updates.data(), tensors)));
    OP_REQUIRES_OK(context, reports.Allocate(context, ReportBytes(updates)));
    CUstream_st* const stream = StreamOf(context);
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(cuda::GroupedTopKResidual(
            updates.data(), tensors, arguments.k, policy_, workspace.As<void>(),
            workspace.bytes(), MutableElements<T>(arguments.values),
            arguments.indices->template flat<std::int32_t>().data(),
            arguments.row_splits->template flat<std::int64_t>().data(),
            reports.As<cuda::TopKReport>(), stream)));
    OP_REQUIRES_OK(
        context,
        CountNonFinite(context, updates, &reports,
                       &arguments.non_finite->template scalar<std::int64_t>()(),
                       stream));
  }

 private:
  using Updates = std::vector<TensorUpdate<CoreType<T>>>;

  static std::size_t ReportBytes(const Updates& updates) {
    return updates.size() * sizeof(cuda::TopKReport);
  }

  // Waits for the device: the op may have to fail, and the host adds up the
  // dropped sums.
  tensorflow::Status CountNonFinite(OpKernelContext* context,
                                    const Updates& updates, Scratch* reports,
                                    std::int64_t* dropped,
                                    CUstream_st* stream) const {
    Scratch on_host;
    TF_RETURN_IF_ERROR(on_host.AllocatePinned(context, ReportBytes(updates)));
    TF_RETURN_IF_ERROR(
        ToTensorFlow(cuda::Fetch(on_host.As<void>(), reports->As<void>(),
                                 ReportBytes(updates), stream)));
    const auto* const first = on_host.As<cuda::TopKReport>();
    const std::vector<cuda::TopKReport> found(first, first + updates.size());
    std::vector<std::int64_t> sizes;
    for (const auto& update : updates) sizes.push_back(update.n);
    *dropped = 0;
    for (const cuda::TopKReport& report : found) *dropped += report.non_finite;
    return ToTensorFlow(cuda::ToStatus(found, sizes, policy_));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>GroupedTopKResidual") \
                              .Device(tensorflow::DEVICE_GPU) \
                              .HostMemory("k")                \
                              .HostMemory("nonfinite")        \
                              .TypeConstraint<T>("T"),        \
                          GroupedTopKResidualGpuOp<T>)
FEDPLUG_REGISTER(float);
FEDPLUG_REGISTER(double);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
