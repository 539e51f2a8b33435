// Queues the steps of topk/steps.h as kernels, a group of tensors at a
// time, or those of topk/resident.h or topk/banded.h as one.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "cuda/device_block.cuh"
#include "cuda/device_grid.cuh"
#include "cuda/device_limits.h"
#include "cuda/launch.cuh"
#include "cuda/topk/banded.h"
#include "cuda/topk/groups.h"
#include "cuda/topk/resident.h"
#include "cuda/topk/steps.h"
#include "cuda/topk/together.h"
#include "cuda/topk_residual.h"

namespace fedplug::cuda {
namespace {

using topk::Group;
using topk::Job;
using topk::kThreads;
using topk::Request;
using topk::Sharing;

// The longest group of a long list. The drivers of CUDA 13 take large
// arguments.
#if CUDART_VERSION >= 13000
constexpr int kLongGroup = topk::kMany;
#else
constexpr int kLongGroup = topk::kFew;
#endif

template <typename Part, typename T, int kMost, typename Step>
__global__ void __launch_bounds__(kThreads)
    PartKernel(const __grid_constant__ Group<T, kMost> group, const Step step,
               bool backwards) {
  __shared__ typename Step::Shared shared;
  const unsigned number = backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  group.template With<Part>(number, [&](const Job<T>& job, const Part& part) {
    step(DeviceBlock{}, job, part, shared);
  });
}

// A step of all groups is queued before the next step of the first:
// PartitionPass must know whether any tensor of the whole list was non-finite.
// Each step walks the tensors the other way than the one before it, and so
// begins with what that one has left in the second-level cache.
template <typename T, int kMost>
class StreamLauncher {
 public:
  StreamLauncher(std::vector<Group<T, kMost>> groups, LaunchQueue* queue)
      : groups_(std::move(groups)), queue_(queue) {}

  template <typename Part, typename Step>
  void Each(const Step& step) {
    for (const Group<T, kMost>& group : groups_) {
      queue_->Launch(PartKernel<Part, T, kMost, Step>,
                     group.template Parts<Part>(), kThreads, group, step,
                     backwards_);
    }
    std::reverse(groups_.begin(), groups_.end());
    backwards_ = !backwards_;
  }

 private:
  std::vector<Group<T, kMost>> groups_;
  bool backwards_ = false;
  LaunchQueue* queue_;
};

// The steps of one block of a grid, all in one kernel, on its part of the
// tensor.
template <typename T, typename Part>
class BlockOfGrid {
 public:
  __device__ BlockOfGrid(const Job<T>& job, const Part& part,
                         const topk::TogetherMemory& memory)
      : job_(job, &memory.decisions()), part_(part), memory_(memory) {}

  __device__ void Begin(const topk::ZeroedMemory& zeroed) {
    zeroed.Zero(block_, blockIdx.x, gridDim.x);
    grid_.Meet();
  }

  template <typename OfBlock, typename OfScope>
  __device__ void Each(const topk::Then<OfBlock, OfScope>& step) {
    job_.BeginStep(block_, blockIdx.x, gridDim.x);
    Last(step.of_block);
    grid_.Meet();
    Last(step.of_scope);
  }

  template <typename Step>
  __device__ void Last(const Step& step) {
    step(block_, job_.job(), part_, memory_.Of(step));
  }

  __device__ const topk::Decisions& decisions() const {
    return memory_.decisions();
  }

 private:
  topk::JobOfBlock<T> job_;
  const Part& part_;
  const topk::TogetherMemory& memory_;
  DeviceBlock block_{};
  DeviceGrid grid_{};
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    ResidentKernel(const __grid_constant__ Job<T> job, NonFinitePolicy policy,
                   std::uint32_t elements_of_share,
                   const topk::ZeroedMemory zeroed) {
  const topk::ResidentMemory<T> memory(shared_of_launch);
  const auto share =
      memory.ShareAt(blockIdx.x, job.tensor.n, elements_of_share);
  BlockOfGrid<T, topk::Share<T>> block(job, share, memory);
  block.Begin(zeroed);
  topk::RunResidentSteps<T>(policy, block);
}

// Two blocks share a multiprocessor, so that one has loads under way while the
// other lists; with 8 bytes an element there are not the registers for it.
template <typename T>
inline constexpr int kBandedBlocks = sizeof(T) == 8 ? 1 : 2;

template <typename T, int kMost>
__global__ void __launch_bounds__(kThreads, kBandedBlocks<T>)
    BandedKernel(const __grid_constant__ topk::BandedCall<T, kMost> call,
                 const topk::ZeroedMemory zeroed) {
  const topk::TogetherMemory memory(shared_of_launch);
  const auto span = call.SpanOf(blockIdx.x, gridDim.x);
  BlockOfGrid<T, topk::Span<T, kMost>> block(call.list.jobs[0], span, memory);
  block.Begin(zeroed);
  topk::RunBandedSteps(call, block);
}

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
    const std::int64_t n = tensors[i].n;
    const std::int64_t k = tensors[i].k;
    if (n < 0 || n > INT32_MAX) {
      return Invalid(where + "n = " + std::to_string(n) +
                     " is not in [0, 2^31)");
    }
    if (k < 0) {
      return Invalid(where + "k = " + std::to_string(k) + " is negative");
    }
  }
  return {};
}

// The tensors of a list with one k, each with all that is shared.
template <typename T>
std::vector<TopKTensor<T>> Sharers(const TensorUpdate<T>* tensors,
                                   std::int64_t count, std::int64_t k,
                                   T* values, std::int32_t* indices) {
  std::vector<TopKTensor<T>> sharers;
  for (std::int64_t i = 0; i < count; ++i) {
    const TensorUpdate<T>& tensor = tensors[i];
    sharers.push_back({tensor.delta, tensor.residual_in, tensor.residual_out,
                       tensor.n, k, values, indices});
  }
  return sharers;
}

template <typename T>
Status CheckGroupSizes(const TensorUpdate<T>* tensors, std::int64_t count,
                       std::int64_t k) {
  if (k < 0) return Invalid("k = " + std::to_string(k) + " is negative");
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < count; ++i) n += tensors[i].n;
  if (n > INT32_MAX) {
    return Invalid("the tensors have " + std::to_string(n) +
                   " elements together, and one k for all of them is for fewer "
                   "than 2^31; give each its own");
  }
  return {};
}

template <int kMost, typename T>
void QueueSteps(const Request<T>& request, NonFinitePolicy policy,
                const topk::Workspace& layout, TopKReport* reports,
                LaunchQueue* queue) {
  StreamLauncher<T, kMost> launcher(
      topk::MakeGroups<kMost>(request, layout, reports), queue);
  topk::RunSteps<T>(policy, launcher);
}

// Says whether the selection is queued, or was refused: otherwise there is not
// the room for it.
//
// REQUIRES: request.count == 1
template <typename T>
bool QueueResident(const Request<T>& request, NonFinitePolicy policy,
                   const topk::Workspace& layout, TopKReport* reports,
                   const DeviceLimits& limits, LaunchQueue* queue) {
  const auto shares = topk::SharesOf<T>(request.tensors[0].n, limits);
  if (shares.count == 0) return false;
  return queue->LaunchTogether(
      limits,
      static_cast<std::size_t>(
          topk::ResidentMemory<T>::BytesFor(shares.elements)),
      ResidentKernel<T>, shares.count, kThreads,
      topk::OnlyJob(request, layout, reports), policy, shares.elements,
      topk::ZeroedMemory::Of(layout));
}

// As QueueResident.
//
// REQUIRES: request.Scopes() == 1; request.count <= kMost
template <int kMost, typename T>
bool QueueBanded(const Request<T>& request, NonFinitePolicy policy,
                 const topk::Workspace& layout, TopKReport* reports,
                 const DeviceLimits& limits, LaunchQueue* queue) {
  constexpr auto kBytes =
      static_cast<std::size_t>(topk::TogetherMemory::kBytes);
  const unsigned most =
      queue->MostTogether(limits, kBytes, BandedKernel<T, kMost>, kThreads);
  if (most == 0) return queue->refused();
  const std::int64_t blocks = std::min(
      {std::int64_t{most}, topk::SizesOf(request, 0, request.count).tiles,
       topk::kMostShares});
  return queue->LaunchTogether(
      limits, kBytes, BandedKernel<T, kMost>, static_cast<unsigned>(blocks),
      kThreads, topk::MakeBandedCall<kMost>(request, policy, layout, reports),
      topk::ZeroedMemory::Of(layout));
}

// REQUIRES: the sizes are checked
template <typename T>
Status Queue(const Request<T>& request, NonFinitePolicy policy, void* workspace,
             std::size_t workspace_bytes, TopKReport* reports,
             cudaStream_t stream, TopKWay way) {
  const topk::Workspace layout = topk::LayOut(request, way, workspace);
  if (workspace_bytes < layout.bytes) {
    return Invalid("the workspace has " + std::to_string(workspace_bytes) +
                   " bytes but must have " + std::to_string(layout.bytes) +
                   "; ask " +
                   (request.sharing == Sharing::kOneForEach
                        ? "TopKResidualWorkspaceBytes"
                        : "GroupedTopKResidualWorkspaceBytes") +
                   " with the way of the call");
  }
  LaunchQueue queue(stream);
  if (way != TopKWay::kPasses && request.Scopes() == 1) {
    DeviceLimits limits;
    if (Status status = FindDeviceLimits(&limits); !status.ok()) return status;
    const auto queued_by = [&](TopKWay asked_for, int most, auto queue_it) {
      return (way == asked_for || way == TopKWay::kFastest) &&
             request.count <= most &&
             queue_it(request, policy, layout, reports, limits, &queue);
    };
    const auto queue_banded =
        request.count == 1 ? QueueBanded<1, T> : QueueBanded<kLongGroup, T>;
    if (queued_by(TopKWay::kResident, 1, QueueResident<T>) ||
        queued_by(TopKWay::kBanded, kLongGroup, queue_banded)) {
      return queue.status("topk_residual");
    }
  }
  queue.Zero(layout.any_non_finite, layout.zeroed_bytes);
  if (request.count <= topk::kFew) {
    QueueSteps<topk::kFew>(request, policy, layout, reports, &queue);
  } else {
    QueueSteps<kLongGroup>(request, policy, layout, reports, &queue);
  }
  return queue.status("topk_residual");
}

}  // namespace

template <typename T>
std::size_t TopKResidualWorkspaceBytes(const TopKTensor<T>* tensors,
                                       std::int64_t count, TopKWay way) {
  const Request<T> request = {tensors, count, Sharing::kOneForEach, nullptr};
  return topk::LayOut(request, way, nullptr).bytes;
}

template <typename T>
Status TopKResidual(const TopKTensor<T>* tensors, std::int64_t count,
                    NonFinitePolicy policy, void* workspace,
                    std::size_t workspace_bytes, TopKReport* reports,
                    cudaStream_t stream, TopKWay way) {
  if (Status status = CheckSizes(tensors, count); !status.ok()) return status;
  return Queue<T>({tensors, count, Sharing::kOneForEach, nullptr}, policy,
                  workspace, workspace_bytes, reports, stream, way);
}

template <typename T>
std::size_t GroupedTopKResidualWorkspaceBytes(const TensorUpdate<T>* tensors,
                                              std::int64_t count, TopKWay way) {
  const auto sharers = Sharers<T>(tensors, count, 0, nullptr, nullptr);
  const Request<T> request = {sharers.data(), count, Sharing::kOneForAll,
                              nullptr};
  return topk::LayOut(request, way, nullptr).bytes;
}

template <typename T>
Status GroupedTopKResidual(const TensorUpdate<T>* tensors, std::int64_t count,
                           std::int64_t k, NonFinitePolicy policy,
                           void* workspace, std::size_t workspace_bytes,
                           T* values, std::int32_t* indices,
                           std::int64_t* row_splits, TopKReport* reports,
                           cudaStream_t stream, TopKWay way) {
  const auto sharers = Sharers(tensors, count, k, values, indices);
  if (Status status = CheckSizes(sharers.data(), count); !status.ok()) {
    return status;
  }
  if (Status status = CheckGroupSizes(tensors, count, k); !status.ok()) {
    return status;
  }
  if (count == 0) {  // no block is there to write the one split
    return ToStatus(cudaMemsetAsync(row_splits, 0, sizeof(*row_splits), stream),
                    "topk_residual");
  }
  return Queue<T>({sharers.data(), count, Sharing::kOneForAll, row_splits},
                  policy, workspace, workspace_bytes, reports, stream, way);
}

#define FEDPLUG_INSTANTIATE(T)                                               \
  template std::size_t TopKResidualWorkspaceBytes<T>(const TopKTensor<T>*,   \
                                                     std::int64_t, TopKWay); \
  template Status TopKResidual<T>(const TopKTensor<T>*, std::int64_t,        \
                                  NonFinitePolicy, void*, std::size_t,       \
                                  TopKReport*, cudaStream_t, TopKWay);       \
  template std::size_t GroupedTopKResidualWorkspaceBytes<T>(                 \
      const TensorUpdate<T>*, std::int64_t, TopKWay);                        \
  template Status GroupedTopKResidual<T>(                                    \
      const TensorUpdate<T>*, std::int64_t, std::int64_t, NonFinitePolicy,   \
      void*, std::size_t, T*, std::int32_t*, std::int64_t*, TopKReport*,     \
      cudaStream_t, TopKWay)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
