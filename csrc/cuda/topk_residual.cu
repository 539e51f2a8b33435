// Queues a selection as one kernel: the steps of topk/banded.h. The tensors of
// a list are described by a table in the workspace, which kernels that take its
// words as arguments write first.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/chunked_topk_residual.h"
#include "cuda/chunked_topk_steps.h"
#include "cuda/device_block.cuh"
#include "cuda/launch.cuh"
#include "cuda/runtime.h"
#include "cuda/topk/banded.h"
#include "cuda/topk/lists.h"
#include "cuda/topk/together.h"
#include "cuda/topk_residual.h"

namespace fedplug::cuda {
namespace {

using topk::Job;
using topk::kThreads;
using topk::List;
using topk::Request;
using topk::Sharing;
using topk::Span;
using topk::Team;
using topk::TogetherMemory;

// The steps of one block of a team, all in one kernel, on its part of the
// scope.
template <typename T, typename Part>
class BlockOfTeam {
 public:
  // `memory` is a TogetherMemory that outlives the object.
  __device__ BlockOfTeam(const Job<T>& job, const Part& part,
                         const TogetherMemory& memory, const Team& team)
      : job_(job, &memory.decisions()),
        part_(part),
        memory_(memory),
        team_(team),
        barrier_(team.blocks, &job.scope.state->arrived) {}

  template <typename OfBlock, typename OfScope>
  __device__ void Each(const topk::Then<OfBlock, OfScope>& step) {
    job_.BeginStep(block_, team_.number, team_.blocks);
    Last(step.of_block);
    barrier_.Meet();
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
  const TogetherMemory& memory_;
  const Team team_;
  DeviceBlock block_{};
  DeviceTeam barrier_;
};

// The first step of every kernel.
__device__ void ZeroTogether(const topk::ZeroedMemory& zeroed) {
  zeroed.Zero(DeviceBlock(), blockIdx.x, gridDim.x);
  DeviceGrid().Meet();
}

// Two blocks share a multiprocessor, so that one has loads under way while the
// other lists. With 8 bytes an element there are not the registers for it.
template <typename T>
inline constexpr int kBandedBlocks = sizeof(T) == 8 ? 1 : 2;

// The steps for one scope, of a block of its team.
template <typename T>
__device__ void SelectBanded(const List<T>& list, bool checked,
                             const Team& team) {
  const TogetherMemory memory(shared_of_launch);
  const Span<T> span = Span<T>::Of(list, team);
  BlockOfTeam<T, Span<T>> block(list.jobs[0], span, memory, team);
  topk::RunBandedSteps(list.jobs[0], checked, block);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBandedBlocks<T>)
    BandedKernel(const __grid_constant__ Job<T> job,
                 const topk::ZeroedMemory zeroed) {
  ZeroTogether(zeroed);
  const auto n = static_cast<std::uint32_t>(job.tensor.n);
  const auto tiles = static_cast<std::uint32_t>(topk::TilesOf(n));
  SelectBanded<T>({&job, nullptr, nullptr, 1, tiles, n}, /*checked=*/false,
                  {blockIdx.x, gridDim.x});
}

// Says whether a sum of any tensor is refused. If so, the residuals and the
// reports are as they must be.
template <typename T>
__device__ bool RefusesAny(const List<T>& list) {
  const TogetherMemory memory(shared_of_launch);
  const Team team = {blockIdx.x, gridDim.x};
  const Span<T> span = Span<T>::Of(list, team);
  BlockOfTeam<T, Span<T>> block(list.jobs[0], span, memory, team);
  block.Last(topk::CheckSums<T>{});
  DeviceGrid().Meet();
  if (!topk::IsRefused(list.jobs[0])) return false;
  block.Last(topk::Settle<T>{/*written=*/false});
  return true;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kBandedBlocks<T>)
    BandedListKernel(const List<T> list, Sharing sharing,
                     const topk::ZeroedMemory zeroed) {
  ZeroTogether(zeroed);
  const bool each = sharing == Sharing::kOneForEach;
  if (each && RefusesAny(list)) return;
  for (int i = 0; i < (each ? list.tensors : 1); ++i) {
    unsigned first = 0;
    const unsigned blocks =
        each ? list.TeamOf(i, gridDim.x, &first) : gridDim.x;
    if (blockIdx.x - first >= blocks) continue;  // also where it is below
    SelectBanded(each ? list.Only(i) : list, /*checked=*/each,
                 {blockIdx.x - first, blocks});
  }
}

// A part of the words of a table, as an argument of a kernel: of up to 4 KB, or
// 32 KB where the driver takes so much.
template <int kWords>
struct PartOfTable {
  std::uint32_t words[kWords];
};
constexpr int kFewWords = 1000;
constexpr int kManyWords = 8000;

template <int kWords>
__global__ void __launch_bounds__(kThreads)
    StoreKernel(const __grid_constant__ PartOfTable<kWords> part,
                std::uint32_t count, std::uint32_t* table) {
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    table[i] = part.words[i];
  }
}

template <int kWords>
void StoreTable(const std::vector<std::uint32_t>& words, std::uint32_t* table,
                LaunchQueue* queue) {
  for (std::size_t begin = 0; begin < words.size(); begin += kWords) {
    const std::size_t count =
        std::min<std::size_t>(kWords, words.size() - begin);
    PartOfTable<kWords> part;
    std::copy_n(words.data() + begin, count, part.words);
    queue->Launch(StoreKernel<kWords>, 1, kThreads, part,
                  static_cast<std::uint32_t>(count), table + begin);
  }
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
    if (Status status = CheckInt32((where + "n").c_str(), n); !status.ok()) {
      return status;
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

// Queues a banded kernel with as many blocks as the device runs together, up to
// one a tile.
template <typename... Parameters, typename... Arguments>
void QueueBanded(std::int64_t tiles, const DeviceLimits& limits,
                 LaunchQueue* queue, void (*kernel)(Parameters...),
                 const Arguments&... arguments) {
  constexpr auto kBytes = static_cast<std::size_t>(TogetherMemory::kBytes);
  auto blocks = static_cast<unsigned>(std::min(
      {std::int64_t{queue->MostTogether(limits, kBytes, kernel, kThreads)},
       tiles, topk::kMostBlocks}));
  // A device that others use may run fewer.
  while (blocks > 0 && !queue->LaunchTogether(kBytes, kernel, blocks, kThreads,
                                              arguments...)) {
    blocks /= 2;
  }
  if (blocks == 0) queue->Refuse(cudaErrorCooperativeLaunchTooLarge);
}

// REQUIRES: the sizes are checked
template <typename T>
Status Queue(const Request<T>& request, void* workspace,
             std::size_t workspace_bytes, TopKReport* reports,
             cudaStream_t stream) {
  const topk::Workspace layout = topk::LayOut(request, workspace);
  if (Status status = CheckWorkspace(workspace_bytes, layout.bytes);
      !status.ok()) {
    return status;
  }
  if (request.count == 0) return {};
  DeviceLimits limits;
  if (Status status = FindDeviceLimits(&limits); !status.ok()) return status;
  LaunchQueue queue(stream);
  const auto zeroed = topk::ZeroedMemory::Of(layout);
  const std::int64_t tiles = topk::SizesOf(request, 0, request.count).tiles;
  const std::vector<Job<T>> jobs = topk::JobsOf(request, layout, reports);
  if (request.count > 1) {
    const auto store =
        limits.large_arguments ? StoreTable<kManyWords> : StoreTable<kFewWords>;
    store(topk::TableOf(jobs), layout.table, &queue);
    QueueBanded(tiles, limits, &queue, BandedListKernel<T>,
                topk::ListAt(layout.table, request), request.sharing, zeroed);
  } else {
    QueueBanded(tiles, limits, &queue, BandedKernel<T>, jobs[0], zeroed);
  }
  return queue.status("topk_residual");
}

}  // namespace

template <typename T>
std::size_t TopKResidualWorkspaceBytes(const TopKTensor<T>* tensors,
                                       std::int64_t count) {
  const Request<T> request = {tensors, count, Sharing::kOneForEach, nullptr};
  return topk::LayOut(request, nullptr).bytes;
}

template <typename T>
Status TopKResidual(const TopKTensor<T>* tensors, std::int64_t count,
                    void* workspace, std::size_t workspace_bytes,
                    TopKReport* reports, cudaStream_t stream) {
  if (Status status = CheckSizes(tensors, count); !status.ok()) return status;
  return Queue<T>({tensors, count, Sharing::kOneForEach, nullptr}, workspace,
                  workspace_bytes, reports, stream);
}

template <typename T>
std::size_t GroupedTopKResidualWorkspaceBytes(const TensorUpdate<T>* tensors,
                                              std::int64_t count) {
  const auto sharers = Sharers<T>(tensors, count, 0, nullptr, nullptr);
  const Request<T> request = {sharers.data(), count, Sharing::kOneForAll,
                              nullptr};
  return topk::LayOut(request, nullptr).bytes;
}

template <typename T>
Status GroupedTopKResidual(const TensorUpdate<T>* tensors, std::int64_t count,
                           std::int64_t k, void* workspace,
                           std::size_t workspace_bytes, T* values,
                           std::int32_t* indices, std::int64_t* row_splits,
                           TopKReport* reports, cudaStream_t stream) {
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
                  workspace, workspace_bytes, reports, stream);
}

#define FEDPLUG_INSTANTIATE(T)                                                \
  template std::size_t TopKResidualWorkspaceBytes<T>(const TopKTensor<T>*,    \
                                                     std::int64_t);           \
  template Status TopKResidual<T>(const TopKTensor<T>*, std::int64_t, void*,  \
                                  std::size_t, TopKReport*, cudaStream_t);    \
  template std::size_t GroupedTopKResidualWorkspaceBytes<T>(                  \
      const TensorUpdate<T>*, std::int64_t);                                  \
  template Status GroupedTopKResidual<T>(                                     \
      const TensorUpdate<T>*, std::int64_t, std::int64_t, void*, std::size_t, \
      T*, std::int32_t*, std::int64_t*, TopKReport*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

template <typename T>
Status QueueChunkedTopK(const ScaledSum<T>& call, std::int64_t k,
                        std::int64_t chunk, T* values, std::int32_t* indices,
                        NonFiniteCount* non_finite, cudaStream_t stream) {
  if (Status status = CheckChunks(call.n, k, chunk); !status.ok()) {
    return status;
  }
  LaunchQueue queue(stream);
  queue.Zero(non_finite, sizeof(*non_finite));
  QueueStep<topk::kThreads>(
      SelectFromChunk<T>{call, k, chunk, values, indices, non_finite}, &queue);
  return queue.status("chunked_topk_residual");
}

#define FEDPLUG_INSTANTIATE(T)                                           \
  template Status QueueChunkedTopK<T>(const ScaledSum<T>&, std::int64_t, \
                                      std::int64_t, T*, std::int32_t*,   \
                                      NonFiniteCount*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
