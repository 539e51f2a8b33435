// The two steps that walk over all sums: CountPass, which counts them, and
// PartitionPass, which lists those that may be chosen. Must not know what
// becomes of the list.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_SUMS_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_SUMS_H_

#include <cstdint>

#include "core/base/float_bits.h"
#include "core/base/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk_residual.h"
#include "cuda/topk_residual_histogram.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

// Whether the sums may be written before all were seen: where none is refused,
// or where residual_in stays. So PartitionPass reads one array instead of two.
template <typename T>
FEDPLUG_HOST_DEVICE bool CountPassWrites(const TopKTensor<T>& tensor,
                                         NonFinitePolicy policy) {
  return policy == NonFinitePolicy::kDrop ||
         tensor.residual_out != tensor.residual_in;
}

// body(item) for those of a thread's kItems elements of the tile that are
// inside it; the thread takes every kThreads-th, so that a warp reads
// neighbours wherever the tensor begins. Nearly every tile is full, and then
// nothing is asked.
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
// else zero. A loop of its own, without a use of what it loads: so all loads
// are under way before the first is waited for.
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

template <typename T>
struct CountPass {
  NonFinitePolicy policy;

  struct Shared {
    std::uint32_t histogram[kBins];
    std::uint32_t non_finite;
    std::uint32_t first_non_finite_from_end;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const std::int64_t n = job.tensor.n;
    const bool writes = CountPassWrites(job.tensor, policy);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.non_finite = 0;
      shared.first_non_finite_from_end = 0;
    });
    block.Each([&](int thread) {
      const int left = tile.size - thread;
      const std::int64_t begin = tile.begin + thread;
      T sums[kItems];
      LoadSums(job.tensor, begin, left, sums);
      T* const out = job.tensor.residual_out;
      std::uint32_t non_finite = 0;
      int first = 0;
      ForItems(left, [&](int item) {
        T a = sums[item];
        if (!IsFinite(a)) {
          if (non_finite == 0) first = item;
          ++non_finite;
          a = T{};
        }
        if (writes) out[begin + item * kThreads] = a;
        CountOne(&shared.histogram[DigitOf(a, 0)]);
      });
      if (non_finite == 0) return;
      AtomicAdd(&shared.non_finite, non_finite);
      AtomicMax(&shared.first_non_finite_from_end,
                static_cast<std::uint32_t>(n - (begin + first * kThreads)));
    });
    AddHistogram(block, shared.histogram, job.scope.state->histogram);
    block.Each([&](int thread) {
      if (thread != 0 || shared.non_finite == 0) return;
      AtomicAdd(&job.state->non_finite, shared.non_finite);
      AtomicMax(&job.state->first_non_finite_from_end,
                shared.first_non_finite_from_end);
      AtomicMax(job.any_non_finite, 1u);
    });
  }
};

template <typename T>
struct PartitionPass {
  NonFinitePolicy policy;

  struct Shared {
    std::uint32_t histogram[kBins];
    RankedBits<kTile> shortlisted;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    if (tile.number == 0) Report(block, job);
    if (policy == NonFinitePolicy::kError && *job.any_non_finite != 0) {
      Refuse(block, job, tile);
      return;
    }
    const auto threshold = PrefixOfThreshold<T>(job.scope.state->thresholds[0]);
    const bool written = CountPassWrites(job.tensor, policy);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      const int left = tile.size - thread;
      const std::int64_t begin = tile.begin + thread;
      T* const out = job.tensor.residual_out;
      T sums[kItems];  // finite, or this was refused
      if (written) {
        LoadItems(out, begin, left, sums);
      } else {
        LoadSums(job.tensor, begin, left, sums);
        ForItems(left,
                 [&](int item) { out[begin + item * kThreads] = sums[item]; });
      }
      for (int item = 0; item < kItems; ++item) {
        const bool inside = item * kThreads < left;
        const T a = sums[item];
        const auto prefix = PrefixOf(a, 0);
        if (inside && prefix == threshold) {
          CountOne(&shared.histogram[DigitOf(a, 1)]);
        }
        shared.shortlisted.Mark(thread, item * kThreads + thread,
                                inside && prefix >= threshold);
      }
    });
    shared.shortlisted.Run(block, kThreads, kTile);
    block.Each([&](int thread) {
      for (int place = thread; place < tile.size; place += kThreads) {
        if (shared.shortlisted.Has(place)) {
          job.shortlist[tile.begin + shared.shortlisted.Before(place)] =
              static_cast<std::uint16_t>(place);
        }
      }
      if (thread == 0) {
        job.shortlisted[tile.number] = shared.shortlisted.Total();
      }
    });
    AddHistogram(block, shared.histogram, job.scope.state->histogram);
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void Report(const Block& block, const Job<T>& job) const {
    block.Each([&](int thread) {
      if (thread != 0) return;
      const TensorState& state = *job.state;
      job.report->non_finite = state.non_finite;
      job.report->first_non_finite =
          state.non_finite > 0 ? job.tensor.n - state.first_non_finite_from_end
                               : -1;
    });
  }

  // Nothing is selected, and the residual is what it was.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Refuse(const Block& block, const Job<T>& job,
                                  const Tile& tile) const {
    block.Each([&](int thread) {
      if (thread == 0) job.shortlisted[tile.number] = 0;
      if (job.tensor.residual_out == job.tensor.residual_in) return;
      for (int place = thread; place < tile.size; place += kThreads) {
        const std::int64_t i = tile.begin + place;
        job.tensor.residual_out[i] = job.tensor.residual_in[i];
      }
    });
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_SUMS_H_
