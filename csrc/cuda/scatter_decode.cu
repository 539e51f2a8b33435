// Queues the steps of scatter_decode_steps.h as kernels.
#include <cuda_runtime.h>

#include <string>

#include "core/scatter_decode.h"
#include "cuda/launch.cuh"
#include "cuda/runtime.h"
#include "cuda/scatter_decode.h"
#include "cuda/scatter_decode_steps.h"

namespace fedplug::cuda {
namespace {

using scatter::Call;
using scatter::Mistakes;

static_assert(scatter::kThreads == kStepThreads);

// Checks on the host. Check does the others.
Status CheckSizes(std::int64_t n, std::int64_t entries, std::int64_t payloads,
                  std::size_t workspace_bytes) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (Status status = CheckDenseSize(n); !status.ok()) return status;
  if (payloads < 0) {
    return invalid(
        "row_splits is empty; it holds one number more than there are "
        "payloads, the first of them 0");
  }
  // One block checks 2048 of them, and a launch has up to 2^31 - 1 blocks.
  constexpr std::int64_t kMost = std::int64_t{1} << 41;
  if (entries < 0 || entries >= kMost || payloads >= kMost) {
    return invalid(std::to_string(entries) + " entries in " +
                   std::to_string(payloads) +
                   " payloads: neither may be negative or 2^41 or more");
  }
  return CheckWorkspace(workspace_bytes, ScatterDecodeWorkspaceBytes());
}

// REQUIRES: the sizes are checked
template <typename T>
void QueueSteps(const Call<T>& call, LaunchQueue* queue) {
  queue->Zero(call.mistakes, sizeof(*call.mistakes));
  QueueStep(scatter::Check<T>{call}, queue);
  QueueStep(scatter::Add<T>{call}, queue);
}

}  // namespace

std::size_t ScatterDecodeWorkspaceBytes() { return 256; }

template <typename T>
Status ScatterDecodeAdd(T* accumulator, std::int64_t n, const T* values,
                        const std::int32_t* indices, std::int64_t entries,
                        const std::int64_t* row_splits, std::int64_t payloads,
                        const T* weights, void* workspace,
                        std::size_t workspace_bytes, ScatterReport* report,
                        cudaStream_t stream) {
  static_assert(sizeof(Mistakes) <= 256);
  if (Status status = CheckSizes(n, entries, payloads, workspace_bytes);
      !status.ok()) {
    return status;
  }
  LaunchQueue queue(stream);
  QueueSteps<T>({accumulator, n, values, indices, entries, row_splits, payloads,
                 weights, static_cast<Mistakes*>(workspace), report},
                &queue);
  return queue.status("scatter_decode_add");
}

template <typename T>
Status ScatterDecode(T* sum, std::int64_t n, const T* values,
                     const std::int32_t* indices, std::int64_t entries,
                     const std::int64_t* row_splits, std::int64_t payloads,
                     const T* weights, void* workspace,
                     std::size_t workspace_bytes, ScatterReport* report,
                     cudaStream_t stream) {
  if (Status status = CheckSizes(n, entries, payloads, workspace_bytes);
      !status.ok()) {
    return status;
  }
  LaunchQueue queue(stream);
  // All bits zero are +0 in every dtype.
  queue.Zero(sum, static_cast<std::size_t>(n) * sizeof(T));
  QueueSteps<T>({sum, n, values, indices, entries, row_splits, payloads,
                 weights, static_cast<Mistakes*>(workspace), report},
                &queue);
  return queue.status("scatter_decode");
}

#define FEDPLUG_INSTANTIATE(T)                                         \
  template Status ScatterDecodeAdd<T>(                                 \
      T*, std::int64_t, const T*, const std::int32_t*, std::int64_t,   \
      const std::int64_t*, std::int64_t, const T*, void*, std::size_t, \
      ScatterReport*, cudaStream_t);                                   \
  template Status ScatterDecode<T>(                                    \
      T*, std::int64_t, const T*, const std::int32_t*, std::int64_t,   \
      const std::int64_t*, std::int64_t, const T*, void*, std::size_t, \
      ScatterReport*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
