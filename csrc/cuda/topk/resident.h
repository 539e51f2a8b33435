// The selection from one tensor whose sums all stay in the shared memory of the
// multiprocessors: one launch, of blocks that wait for each other. The method
// is radix selection, as in AIR Top-K (Zhang, Naruse, Li, Wang, "Parallel Top-K
// Algorithms on GPU: A Comprehensive Study and New Methods", SC 2023) and RadiK
// (Li et al., ICS 2024, arXiv 2501.14336), fused with the error-feedback update
// and exact to the tie:
//   KeepSums       adds up a share of the tensor, keeps it, and counts it by
//                  the leading 11 bits of |a|
//   PartitionKept  writes the residual; lists what may be chosen, the entries
//                  at or above the bin of the k-th largest, and counts those in
//                  that bin by the next 11 bits
//   Refine         counts by further digits what of the list still is in the
//                  bin, until the key of the k-th largest is known
//   CountChosen, Emit
//                  give every chosen entry its place, in the order of indices,
//                  and move it out of the residual
// After each step but the last there is a barrier of the whole grid, and every
// block computes the consequences of all counts itself (together.h). Nothing is
// written before all sums were checked. No step depends on the order in which
// blocks or threads run: the only atomic operations are integer additions and
// maxima, and every place is computed, not drawn. COST, per element: reads
// delta and residual_in and writes residual_out, 3 * sizeof(T) bytes whatever
// the policy; per listed entry 2 bytes of scratch. 1 launch, 2 + rounds
// barriers of the grid.
#ifndef FEDPLUG_CUDA_TOPK_RESIDENT_H_
#define FEDPLUG_CUDA_TOPK_RESIDENT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/host_device.h"
#include "cuda/device_limits.h"
#include "cuda/topk/entries.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"
#include "cuda/topk/lists.h"
#include "cuda/topk/shortlist.h"
#include "cuda/topk/sums.h"
#include "cuda/topk/together.h"

namespace fedplug::cuda::topk {

// The part of a tensor that one block keeps in its shared memory.
template <typename T>
struct Share {
  std::int64_t number;
  std::int64_t begin;
  int size;
  T* sums;              // [size]
  ListedTiles* listed;  // of the tiles that begin with the share

  // As entries.h has it.
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForPages(const Job<T>& job, const Body& body) const {
    body(job, *this);
  }
  FEDPLUG_HOST_DEVICE bool BeginsTensor() const { return number == 0; }

  // body(number, tile), in order
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForTiles(const Body& body) const {
    for (int t = 0; t * kTile < size; ++t) {
      const int left = size - t * kTile;
      body(t, Tile{t, begin + t * kTile, left < kTile ? left : kTile});
    }
  }
};

struct ShareEntries {
  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void Open(const Block&, const Job<T>&,
                                const Share<T>&) const {}

  template <typename T>
  FEDPLUG_HOST_DEVICE int Total(const Share<T>& share) const {
    return share.listed->Total();
  }

  template <typename T>
  FEDPLUG_HOST_DEVICE Entry<T> At(const Job<T>& job, const Share<T>& share,
                                  int j) const {
    const int tile = share.listed->TileOf(j);
    const std::int64_t index =
        share.listed->IndexOf(job, j, tile, share.begin + tile * kTile);
    return {index, share.sums[index - share.begin]};
  }
};

template <typename T>
struct KeepSums {
  using Shared = SumCounts<T>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Share<T>& share,
                                      Shared& shared) const {
    shared.Clear(block);
    block.Each([&](int thread) {
      share.ForTiles([&](int number, const Tile& tile) {
        T* const sums = share.sums + number * kTile;
        shared.Add(job.tensor, tile, thread,
                   [=](int place, T a) { sums[place] = a; });
      });
    });
    shared.Publish(block, job);
  }
};

template <typename T>
struct PartitionKept {
  NonFinitePolicy policy;

  using Shared = Partition<T>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Share<T>& share,
                                      Shared& shared) const {
    if (share.number == 0) WriteReport(block, job);
    std::uint32_t* const begin = share.listed->begin;
    block.Each([&](int thread) {
      if (thread <= kMostTilesOfChunk) begin[thread] = 0;
    });
    if (IsRefused(job, policy)) {
      CopyResidual(block, job.tensor, share.begin, share.size);
      return;
    }
    const auto digits = DigitsBehind<T>(job.scope, 1);
    ClearHistogram(block, shared.histogram);
    share.ForTiles([&](int number, const Tile& tile) {
      shared.Add(
          block, tile.size, digits,
          [&](int thread, T(&sums)[kItems]) {
            const int left = tile.size - thread;
            LoadItems(share.sums, number * kTile + thread, left, sums);
            T* const out = job.tensor.residual_out + tile.begin + thread;
            ForItems(left,
                     [&](int item) { out[item * kThreads] = sums[item]; });
          },
          [&](std::uint32_t entry, std::uint16_t place) {
            job.shortlist[tile.begin + entry] = place;
          },
          [&](int thread, std::uint32_t listed) {
            if (thread > number && thread <= kMostTilesOfChunk) {
              begin[thread] += listed;
            }
          });
    });
    AddHistogram(block, shared.histogram, job.scope.histogram);
  }
};

// The order of the steps. Launcher has Each(step), which runs a step on every
// share, after all that was asked for before, and Last(step), the same for the
// last step, without a barrier.
template <typename T, typename Launcher>
FEDPLUG_HOST_DEVICE void RunResidentSteps(NonFinitePolicy policy,
                                          Launcher& launcher) {
  using Entries = ShareEntries;
  launcher.Each(Then{KeepSums<T>{}, FindThreshold<T>{0}});
  launcher.Each(Then{PartitionKept<T>{policy}, FindThreshold<T>{1}});
  for (int round = 2; round < kRounds<T>; ++round) {
    launcher.Each(Then{Refine<T, Entries>{round}, FindThreshold<T>{round}});
  }
  launcher.Each(Then{CountChosen<T, Entries>{}, SumBefore<T>{}});
  launcher.Last(Emit<T, Entries>{});
}

// The shared memory of a block: that of its steps, and what it keeps.
template <typename T>
class ResidentMemory : public TogetherMemory {
 public:
  using TogetherMemory::TogetherMemory;

  static constexpr std::int64_t BytesFor(std::int64_t elements) {
    return kBytes + kListed + elements * static_cast<std::int64_t>(sizeof(T));
  }

  // Of a tensor of n elements that is cut into shares of `elements`.
  FEDPLUG_HOST_DEVICE Share<T> ShareAt(std::int64_t number, std::int64_t n,
                                       std::int64_t elements) const {
    const std::int64_t begin = number * elements;
    const std::int64_t left = n - begin;
    return {number, begin, static_cast<int>(left < elements ? left : elements),
            reinterpret_cast<T*>(End() + kListed),
            reinterpret_cast<ListedTiles*>(End())};
  }

 private:
  static constexpr std::int64_t kListed = 128;
  static_assert(sizeof(ListedTiles) <= kListed);
};

// How a tensor is cut into shares, one to a block.
struct Shares {
  std::uint32_t count = 0;     // 0 where the device has no room for the sums
  std::uint32_t elements = 0;  // of each but the last
};

// One share per multiprocessor. Shares begin with whole warps and give every
// thread an element.
template <typename T>
Shares SharesOf(std::int64_t n, const DeviceLimits& limits) {
  if (!limits.cooperative || limits.multiprocessors < 1) return {};
  const std::int64_t blocks =
      std::min<std::int64_t>(limits.multiprocessors, MostSharesOf(n));
  const std::int64_t each = (n + blocks - 1) / blocks;
  const std::int64_t elements =
      std::max<std::int64_t>(kLeastShare, (each + kWarp - 1) / kWarp * kWarp);
  const Shares shares = {static_cast<std::uint32_t>(std::max<std::int64_t>(
                             1, (n + elements - 1) / elements)),
                         static_cast<std::uint32_t>(elements)};
  const bool fits =
      elements <= kMostTilesOfChunk * kTile &&
      ResidentMemory<T>::BytesFor(elements) <= limits.shared_bytes;
  return fits ? shares : Shares{};
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDENT_H_
