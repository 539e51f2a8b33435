// Fedplug>GroupedTopKResidual on a GPU: check, allocate, queue on the op's
// stream.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/runtime.h"
#include "cuda/topk_residual.h"
#include "tf/gpu.h"
#include "tf/topk_residual.h"

namespace fedplug {
namespace {

// Waits for the device, because the op may have to fail.
template <typename T>
tensorflow::Status ComputeGroupedTopKResidual(OpKernelContext* context) {
  GroupedTopKArguments<T> arguments;
  TF_RETURN_IF_ERROR(arguments.Open(context));
  const auto& updates = arguments.updates;
  const auto tensors = static_cast<std::int64_t>(updates.size());
  const std::size_t report_bytes = updates.size() * sizeof(cuda::TopKReport);
  Scratch workspace, reports, on_host;
  TF_RETURN_IF_ERROR(workspace.Allocate(
      context,
      cuda::GroupedTopKResidualWorkspaceBytes(updates.data(), tensors)));
  TF_RETURN_IF_ERROR(reports.Allocate(context, report_bytes));
  TF_RETURN_IF_ERROR(on_host.AllocatePinned(context, report_bytes));
  CUstream_st* const stream = StreamOf(context);
  TF_RETURN_IF_ERROR(ToTensorFlow(cuda::GroupedTopKResidual(
      updates.data(), tensors, arguments.k, workspace.As<void>(),
      workspace.bytes(), MutableElements<T>(arguments.values),
      MutableElements<std::int32_t>(arguments.indices),
      MutableElements<std::int64_t>(arguments.row_splits),
      reports.As<cuda::TopKReport>(), stream)));
  TF_RETURN_IF_ERROR(ToTensorFlow(cuda::Fetch(
      on_host.As<void>(), reports.As<void>(), report_bytes, stream)));
  const auto* const first = on_host.As<cuda::TopKReport>();
  const std::vector<cuda::TopKReport> found(first, first + updates.size());
  std::vector<std::int64_t> sizes;
  for (const auto& update : updates) sizes.push_back(update.n);
  return ToTensorFlow(cuda::ToStatus(found, sizes));
}

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>GroupedTopKResidual") \
                              .Device(tensorflow::DEVICE_GPU) \
                              .HostMemory("k")                \
                              .TypeConstraint<T>("T"),        \
                          FunctionOp<ComputeGroupedTopKResidual<T>>)
FEDPLUG_REGISTER(float);
FEDPLUG_REGISTER(double);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
