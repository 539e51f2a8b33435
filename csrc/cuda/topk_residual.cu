// Queues the steps of topk_residual_steps.h as kernels, a group of tensors at a
// time.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "cuda/device_block.cuh"
#include "cuda/launch.h"
#include "cuda/topk_residual.h"
#include "cuda/topk_residual_groups.h"
#include "cuda/topk_residual_steps.h"

namespace fedplug::cuda {
namespace {

using topk::Group;
using topk::Job;
using topk::kThreads;

template <typename T, typename Step>
__global__ void __launch_bounds__(kThreads)
    TileKernel(const __grid_constant__ Group<T> group, const Step step) {
  __shared__ typename Step::Shared shared;
  const int i = group.TensorOf(blockIdx.x);
  const Job<T>& job = group.jobs[i];
  const topk::Tile tile =
      topk::TileAt(blockIdx.x - group.first_tile[i], job.tensor.n);
  step(DeviceBlock{}, job, tile, shared);
}

template <typename T, typename Step>
__global__ void __launch_bounds__(kThreads)
    TensorKernel(const __grid_constant__ Group<T> group, const Step step) {
  __shared__ typename Step::Shared shared;
  step(DeviceBlock{}, group.jobs[blockIdx.x], shared);
}

// A step of all groups is queued before the next step of the first: Split must
// know whether any tensor of the whole list was non-finite.
template <typename T>
class StreamLauncher {
 public:
  StreamLauncher(std::vector<Group<T>> groups, cudaStream_t stream)
      : groups_(std::move(groups)), stream_(stream) {}

  template <typename Step>
  void EachTile(const Step& step) {
    for (const Group<T>& group : groups_) {
      if (group.Tiles() == 0) continue;
      TileKernel<<<group.Tiles(), kThreads, 0, stream_>>>(group, step);
    }
  }

  template <typename Step>
  void EachTensor(const Step& step) {
    for (const Group<T>& group : groups_) {
      TensorKernel<<<static_cast<unsigned>(group.tensors), kThreads, 0,
                     stream_>>>(group, step);
    }
  }

 private:
  std::vector<Group<T>> groups_;
  cudaStream_t stream_;
};

Status Invalid(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

template <typename T>
Status CheckSizes(const TopKTensor<T>* tensors, std::int64_t count) {
  if (count < 0) {
    return Invalid("the number of tensors, " + std::to_string(count) +
                   ", is negative");
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string where = "tensor " + std::to_string(i) + ": ";
    if (tensors[i].n < 0 || tensors[i].n > INT32_MAX) {
      return Invalid(where + "n = " + std::to_string(tensors[i].n) +
                     " is not in [0, 2^31)");
    }
    if (tensors[i].k < 0) {
      return Invalid(where + "k = " + std::to_string(tensors[i].k) +
                     " is negative");
    }
  }
  return {};
}

}  // namespace

template <typename T>
std::size_t TopKResidualWorkspaceBytes(const TopKTensor<T>* tensors,
                                       std::int64_t count) {
  return topk::LayOut(tensors, count, nullptr).bytes;
}

template <typename T>
Status TopKResidual(const TopKTensor<T>* tensors, std::int64_t count,
                    NonFinitePolicy policy, void* workspace,
                    std::size_t workspace_bytes, TopKReport* reports,
                    cudaStream_t stream) {
  if (Status status = CheckSizes(tensors, count); !status.ok()) return status;
  const topk::Workspace layout = topk::LayOut(tensors, count, workspace);
  if (workspace_bytes < layout.bytes) {
    return Invalid("the workspace has " + std::to_string(workspace_bytes) +
                   " bytes but must have " + std::to_string(layout.bytes) +
                   "; ask TopKResidualWorkspaceBytes");
  }
  if (count == 0) return {};
  const cudaError_t cleared =
      cudaMemsetAsync(layout.any_non_finite, 0, layout.zeroed_bytes, stream);
  if (cleared == cudaSuccess) {
    StreamLauncher<T> launcher(
        topk::MakeGroups(tensors, count, layout, reports), stream);
    topk::RunSteps<T>(policy, launcher);
  }
  return LaunchStatus("topk_residual");
}

#define FEDPLUG_INSTANTIATE(T)                                             \
  template std::size_t TopKResidualWorkspaceBytes<T>(const TopKTensor<T>*, \
                                                     std::int64_t);        \
  template Status TopKResidual<T>(const TopKTensor<T>*, std::int64_t,      \
                                  NonFinitePolicy, void*, std::size_t,     \
                                  TopKReport*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
