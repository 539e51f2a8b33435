// Checks the arguments, and gives runs of neighbouring chunks to threads. The
// selection of a chunk is topk/chunk_selection.h.
#include "core/chunked_topk_residual.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/base/parallel.h"
#include "core/base/scratch.h"
#include "core/topk/chunk_selection.h"
#include "core/topk/sizes.h"
#include "core/topk/sum_refusal.h"

namespace fedplug {
namespace {

using topk::ChunkedUpdate;
using topk::ChunkScratch;
using topk::ChunkSelection;

// Below this number of elements, waking a second thread takes longer than its
// work.
constexpr std::int64_t kSmallestShare = 1 << 18;

// Numbers from 0 to 1 have the bits of +0 to those of 1.
template <typename T>
Status CheckDecay(T decay) {
  if (ToBits(decay) <= ToBits(T{1})) return {};
  return {StatusCode::kInvalidArgument, "decay is not in [0, 1]"};
}

// Calls body(share, t) for a range of whole chunks of every task.
template <typename T, typename Body>
void ForEachShare(const ChunkedUpdate<T>& update, int tasks, Parallel& parallel,
                  const Body& body) {
  const std::int64_t chunks = (update.n + update.chunk - 1) / update.chunk;
  parallel.Run(tasks, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(chunks, tasks, t);
    body(Range{mine.begin * update.chunk,
               std::min(update.n, mine.end * update.chunk)},
         t);
  });
}

template <typename T>
std::int64_t CountNonFinite(const ChunkedUpdate<T>& update, int tasks,
                            Parallel& parallel) {
  std::atomic<std::int64_t> count{0};
  ForEachShare(update, tasks, parallel, [&](const Range& share, int) {
    count += topk::CountNonFiniteIn(update, share);
  });
  return count;
}

// False if a sum is not finite.
template <typename T>
bool SelectFromShare(const ChunkedUpdate<T>& update, const Range& share,
                     const ChunkScratch<T>& scratch, T* values,
                     std::int32_t* indices) {
  ChunkSelection<T> selection(update, scratch);
  const std::int64_t of_each = std::min(update.k, update.chunk);
  std::int64_t entry = share.begin / update.chunk * of_each;
  for (std::int64_t at = share.begin; at < share.end;
       at += update.chunk, entry += of_each) {
    const Range chunk{at, std::min(share.end, at + update.chunk)};
    if (!selection.Select(chunk, values + entry, indices + entry)) return false;
  }
  return true;
}

}  // namespace

Status CheckChunks(std::int64_t n, std::int64_t k, std::int64_t chunk) {
  if (Status status = topk::CheckSizes(n, k); !status.ok()) return status;
  if (chunk < 1) {
    return {StatusCode::kInvalidArgument,
            "chunk = " + std::to_string(chunk) + " is not 1 or more"};
  }
  return {};
}

std::int64_t ChunkedEntries(std::int64_t n, std::int64_t k,
                            std::int64_t chunk) {
  return n / chunk * std::min(k, chunk) + std::min(k, n % chunk);
}

template <typename T>
Status ChunkedTopKResidual(const T* delta, const T* residual_in,
                           T* residual_out, std::int64_t n, std::int64_t k,
                           std::int64_t chunk, T decay, Parallel& parallel,
                           T* values, std::int32_t* indices,
                           std::int64_t* non_finite) {
  *non_finite = 0;
  if (Status status = CheckChunks(n, k, chunk); !status.ok()) return status;
  if (Status status = CheckDecay(decay); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  if (n == 0) return {};
  const ChunkedUpdate<T> update{delta,
                                residual_in,
                                residual_out,
                                n,
                                k,
                                std::min(chunk, n),
                                topk::Decay<T>(decay, level),
                                topk::BlockKernelsFor<T>(level),
                                topk::GroupMaximaFor<T>(level)};
  const int tasks = TileCount(n, kSmallestShare, parallel);
  const ScratchLease scratch;
  const std::int64_t room = update.chunk + topk::kSlack;
  T* const listed = scratch->values.template Reserve<T>(tasks * room);
  auto* const places =
      scratch->indices.template Reserve<std::int32_t>(tasks * room);
  auto* const keys =
      scratch->keys.template Reserve<FloatBitsOf<T>>(tasks * room);

  const KeepAwake awake(parallel);
  if (residual_in == residual_out) {
    *non_finite = CountNonFinite(update, tasks, parallel);
  }
  if (*non_finite == 0) {
    std::atomic<bool> finite{true};
    ForEachShare(update, tasks, parallel, [&](const Range& share, int t) {
      const ChunkScratch<T> scratch_of_task{listed + t * room,
                                            places + t * room, keys + t * room};
      if (!SelectFromShare(update, share, scratch_of_task, values, indices)) {
        finite = false;
      }
    });
    if (finite) return {};
    *non_finite = CountNonFinite(update, tasks, parallel);
  }
  return NonFiniteSums(*non_finite, n);
}

#define FEDPLUG_INSTANTIATE(T)                                             \
  template Status ChunkedTopKResidual(                                     \
      const T*, const T*, T*, std::int64_t, std::int64_t, std::int64_t, T, \
      Parallel&, T*, std::int32_t*, std::int64_t*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
