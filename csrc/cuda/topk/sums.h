// Shared parts of the steps that walk over all sums: loads, counts of those
// that are not finite, and lists of candidates.
#ifndef FEDPLUG_CUDA_TOPK_SUMS_H_
#define FEDPLUG_CUDA_TOPK_SUMS_H_

#include <cstdint>

#include "core/base/floats.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"
#include "cuda/topk_residual.h"

namespace fedplug::cuda::topk {

// body(item) for those of a thread's kItems elements of the tile that are
// inside it. The thread takes every kThreads-th, so that a warp reads
// neighbours wherever the tensor begins. Full tiles, nearly all, need no check.
//
// REQUIRES: left = tile.size - thread
template <typename Body>
FEDPLUG_HOST_DEVICE void ForItems(int left, const Body& body) {
  if (left > kTile - kThreads) {
    for (int item = 0; item < kItems; ++item) body(item);
  } else {
    for (int item = 0; item < kItems; ++item) {
      if (item * kThreads < left) body(item);
    }
  }
}

// items[item] = array[begin + item * kThreads] where that is inside the tile,
// else zero. A separate loop, so that all loads are issued before the first is
// used.
template <typename T>
FEDPLUG_HOST_DEVICE void LoadItems(const T* array, std::int64_t begin, int left,
                                   T (&items)[kItems]) {
  for (int item = 0; item < kItems; ++item) items[item] = T{};
  ForItems(left,
           [&](int item) { items[item] = array[begin + item * kThreads]; });
}

// The sums of delta and residual_in.
template <typename T>
FEDPLUG_HOST_DEVICE void LoadSums(const TopKTensor<T>& tensor,
                                  std::int64_t begin, int left,
                                  T (&sums)[kItems]) {
  T residuals[kItems];
  LoadItems(tensor.delta, begin, left, sums);
  LoadItems(tensor.residual_in, begin, left, residuals);
  for (int item = 0; item < kItems; ++item) {
    sums[item] = sums[item] + residuals[item];
  }
}

// The sums of a thread that are not finite: a bit for each item.
struct NonFiniteItems {
  std::uint32_t bits = 0;
  static_assert(kItems <= 32);

  // a, or zero where it is not finite
  template <typename T>
  FEDPLUG_HOST_DEVICE T Drop(T a, int item) {
    if (IsFinite(a)) return a;
    bits |= 1u << item;
    return T{};
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Count() const { return CountOnes(bits); }

  // REQUIRES: there is one
  FEDPLUG_HOST_DEVICE std::uint32_t First() const {
    return CountOnes(~bits & (bits - 1));
  }
};

// The number of sums of a block that are not finite, and the position of the
// first.
struct NonFiniteCounts {
  std::uint32_t count;
  std::uint32_t first_from_end;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void Clear(const Block& block) {
    block.Each([&](int thread) {
      if (thread == 0) *this = {0, 0};
    });
  }

  // Of a thread whose items begin at element `begin` of a tensor of n.
  FEDPLUG_HOST_DEVICE void Add(const NonFiniteItems& items, std::int64_t begin,
                               std::int64_t n) {
    if (items.bits == 0) return;
    AtomicAdd(&count, items.Count());
    AtomicMax(&first_from_end, static_cast<std::uint32_t>(
                                   n - (begin + items.First() * kThreads)));
  }

  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void Publish(const Block& block,
                                   const Job<T>& job) const {
    block.Each([&](int thread) {
      if (thread != 0 || count == 0) return;
      AtomicAdd(&job.state->non_finite, count);
      AtomicMax(&job.state->first_non_finite_from_end, first_from_end);
      AtomicMax(job.any_non_finite, 1u);
    });
  }

  // Publishes the counts of a tile of the tensor, if any, and clears them.
  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void Settle(const Block& block, const Job<T>& job) {
    if (!block.Agree([&] { return count > 0; })) return;
    Publish(block, job);
    Clear(block);
  }
};

// Whether the call is refused, and the residual unchanged. Known after all sums
// of the call were counted.
template <typename T>
FEDPLUG_HOST_DEVICE bool IsRefused(const Job<T>& job) {
  return *job.any_non_finite != 0;
}

// The work of one block of the tensor.
template <typename Block, typename T>
FEDPLUG_HOST_DEVICE void WriteReport(const Block& block, const Job<T>& job) {
  block.Each([&](int thread) {
    if (thread != 0) return;
    const TensorState& state = *job.state;
    job.report->non_finite = state.non_finite;
    job.report->first_non_finite =
        state.non_finite > 0 ? job.tensor.n - state.first_non_finite_from_end
                             : -1;
  });
}

// Restores the residual of a refused call, from element `begin` on.
template <typename Block, typename T>
FEDPLUG_HOST_DEVICE void CopyResidual(const Block& block,
                                      const TopKTensor<T>& tensor,
                                      std::int64_t begin, int size) {
  if (tensor.residual_out == tensor.residual_in) return;
  block.Each([&](int thread) {
    for (int place = thread; place < size; place += kThreads) {
      tensor.residual_out[begin + place] = tensor.residual_in[begin + place];
    }
  });
}

// The counts and lists of the tiles of one block, in its shared memory.
template <typename T>
struct Partition {
  std::uint32_t histogram[kBins];
  RankedBits<kTile> listed;

  // Writes the places in the tile that `digits` lists, in ascending order, to
  // the shortlist of the tensor, and counts those that it counts.
  // load(thread, sums) has the sums of a thread, all of them finite.
  //
  // REQUIRES: the histogram is cleared before the first tile
  template <typename Block, typename Digits, typename Load>
  FEDPLUG_HOST_DEVICE void Add(const Block& block, const Job<T>& job,
                               const Tile& tile, const Digits& digits,
                               const Load& load) {
    block.Each([&](int thread) {
      T sums[kItems];
      load(thread, sums);
      for (int item = 0; item < kItems; ++item) {
        const bool inside = item * kThreads < tile.size - thread;
        const T a = sums[item];
        if (inside && digits.Counts(a)) CountOne(&histogram[digits.Of(a)]);
        listed.Mark(thread, item * kThreads + thread,
                    inside && digits.Lists(a));
      }
    });
    listed.Run(block, kThreads, kTile);
    block.Each([&](int thread) {
      for (int place = thread; place < tile.size; place += kThreads) {
        if (listed.Has(place)) {
          job.shortlist[tile.begin + listed.Before(place)] =
              static_cast<std::uint16_t>(place);
        }
      }
      if (thread == 0) job.shortlisted[tile.number] = listed.Total();
    });
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_SUMS_H_
