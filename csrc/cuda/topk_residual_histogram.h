// Counts of keys by one digit, in the shared memory of a block and in that of a
// scope, and the threshold that follows from them. Must not know what is
// counted.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_HISTOGRAM_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_HISTOGRAM_H_

#include <cstdint>

#include "core/base/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

// The addition of a constant 1 is an instruction of its own, which takes lanes
// of a warp that count the same digit together: so a tensor of zeros does not
// queue up at one counter.
FEDPLUG_HOST_DEVICE inline void CountOne(std::uint32_t* counter) {
  AtomicAdd(counter, 1);
}

template <typename Block>
FEDPLUG_HOST_DEVICE void ClearHistogram(const Block& block,
                                        std::uint32_t* histogram) {
  block.Each([&](int thread) {
    for (int item = 0; item < kBinsPerThread; ++item) {
      histogram[item * kThreads + thread] = 0;
    }
  });
}

template <typename Block>
FEDPLUG_HOST_DEVICE void AddHistogram(const Block& block,
                                      const std::uint32_t* histogram,
                                      std::uint32_t* sum) {
  block.Each([&](int thread) {
    for (int item = 0; item < kBinsPerThread; ++item) {
      const int bin = item * kThreads + thread;
      if (histogram[bin] > 0) AtomicAdd(&sum[bin], histogram[bin]);
    }
  });
}

// Finds the bin of the k-th largest among what all tiles of the scope counted,
// and clears the counts for the next round.
//
// REQUIRES: the block is the last of the scope to arrive
template <typename T>
struct FindThreshold {
  int round;

  struct Shared {
    ExclusiveScan<kThreads> scan;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Scope& scope,
                                      Shared& shared) const {
    std::uint32_t* const histogram = scope.state->histogram;
    const Threshold before = round == 0 ? Threshold{0, scope.chosen}
                                        : scope.state->thresholds[round - 1];
    Threshold* const threshold = &scope.state->thresholds[round];
    // The bins from the top down, a few in a row to each thread.
    const auto bin_of = [](int thread, int item) {
      return kBins - 1 - (thread * kBinsPerThread + item);
    };
    block.Each([&](int thread) {
      if (thread == 0) *threshold = {kAboveAll, 0};  // holds if none is wanted
      std::uint32_t sum = 0;
      for (int item = 0; item < kBinsPerThread; ++item) {
        sum += LoadArrived(&histogram[bin_of(thread, item)]);
      }
      shared.scan.value[thread] = sum;
    });
    shared.scan.Run(block, kThreads);
    block.Each([&](int thread) {
      std::uint32_t counts[kBinsPerThread];
      for (int item = 0; item < kBinsPerThread; ++item) {
        counts[item] = LoadArrived(&histogram[bin_of(thread, item)]);
      }
      std::uint32_t above = shared.scan.Before(thread);
      for (int item = 0; item < kBinsPerThread; ++item) {
        const int bin = bin_of(thread, item);
        const std::uint32_t here = counts[item];
        if (above < before.wanted && before.wanted <= above + here) {
          *threshold = {(before.prefix << BitsOfDigit<T>(round)) |
                            static_cast<std::uint64_t>(bin),
                        before.wanted - above};
        }
        above += here;
        histogram[bin] = 0;
      }
    });
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_HISTOGRAM_H_
