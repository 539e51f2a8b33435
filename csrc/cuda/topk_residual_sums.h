// The two steps that walk over all sums: Survey, which counts them, and Split,
// which lists those that may be chosen. Must not know what becomes of the list.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_SUMS_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_SUMS_H_

#include <cstdint>

#include "core/float_bits.h"
#include "core/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk_residual.h"
#include "cuda/topk_residual_histogram.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

// Whether the sums may be written before all were seen: where none is refused,
// or where residual_in stays. So Split reads one array instead of two.
template <typename T>
FEDPLUG_HOST_DEVICE bool SurveyWrites(const TopKTensor<T>& tensor,
                                      NonFinitePolicy policy) {
  return policy == NonFinitePolicy::kDrop ||
         tensor.residual_out != tensor.residual_in;
}

// items[item] = what load(index in the tensor) gives for place item * kThreads
// + thread of the tile, zero beyond its end. A loop of its own, so that all
// loads are under way before the first is needed.
template <typename T, typename Load>
FEDPLUG_HOST_DEVICE void LoadTile(const Tile& tile, int thread,
                                  const Load& load, T (&items)[kItems]) {
  for (int item = 0; item < kItems; ++item) {
    const int place = item * kThreads + thread;
    items[item] = place < tile.size ? load(tile.begin + place) : T{};
  }
}

// The sums of delta and residual_in.
template <typename T>
FEDPLUG_HOST_DEVICE void LoadSums(const TopKTensor<T>& tensor, const Tile& tile,
                                  int thread, T (&sums)[kItems]) {
  LoadTile(
      tile, thread,
      [&](std::int64_t i) { return tensor.delta[i] + tensor.residual_in[i]; },
      sums);
}

template <typename T>
struct Survey {
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
    const bool writes = SurveyWrites(job.tensor, policy);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.non_finite = 0;
      shared.first_non_finite_from_end = 0;
    });
    block.Each([&](int thread) {
      T sums[kItems];
      LoadSums(job.tensor, tile, thread, sums);
      DigitCounter counter(shared.histogram);
      for (int item = 0; item < kItems; ++item) {
        const int place = item * kThreads + thread;
        if (place >= tile.size) break;
        T a = sums[item];
        if (!IsFinite(a)) {
          AtomicAdd(&shared.non_finite, 1);
          AtomicMax(&shared.first_non_finite_from_end,
                    static_cast<std::uint32_t>(n - (tile.begin + place)));
          a = T{};
        }
        if (writes) job.tensor.residual_out[tile.begin + place] = a;
        counter.Count(DigitOf(a, 0));
      }
      counter.Flush();
    });
    AddHistogram(block, shared.histogram, job.scope.state->histogram);
    block.Each([&](int thread) {
      if (thread != 0 || shared.non_finite == 0) return;
      AtomicAdd(&job.state->non_finite, shared.non_finite);
      AtomicMax(&job.state->first_non_finite_from_end,
                shared.first_non_finite_from_end);
      AtomicMax(job.any_non_finite, 1);
    });
  }
};

template <typename T>
struct Split {
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
    const std::uint64_t cut = job.scope.state->cuts[0].prefix;
    const bool written = SurveyWrites(job.tensor, policy);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      T sums[kItems];
      if (written) {
        LoadTile(
            tile, thread,
            [&](std::int64_t i) { return job.tensor.residual_out[i]; }, sums);
      } else {
        LoadSums(job.tensor, tile, thread, sums);
      }
      DigitCounter counter(shared.histogram);
      for (int item = 0; item < kItems; ++item) {
        const int place = item * kThreads + thread;
        const bool inside = place < tile.size;
        const T a = sums[item];  // finite, or this was refused
        const std::uint64_t prefix = PrefixOf(a, 0);
        if (inside && !written) job.tensor.residual_out[tile.begin + place] = a;
        if (inside && prefix == cut) counter.Count(DigitOf(a, 1));
        shared.shortlisted.Mark(thread, place, inside && prefix >= cut);
      }
      counter.Flush();
    });
    shared.shortlisted.Run(block);
    block.Each([&](int thread) {
      for (int place = thread; place < tile.size; place += kThreads) {
        if (shared.shortlisted.Has(place)) {
          job.shortlist[tile.begin + shared.shortlisted.Before(place)] =
              static_cast<std::uint16_t>(place);
        }
      }
      if (thread == 0) {
        job.tiles[tile.number].shortlisted = shared.shortlisted.Total();
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
      if (thread == 0) job.tiles[tile.number].shortlisted = 0;
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
