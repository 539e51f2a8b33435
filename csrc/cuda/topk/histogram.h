// Counts of keys by one digit, in the shared memory of a block and in that of a
// scope.
#ifndef FEDPLUG_CUDA_TOPK_HISTOGRAM_H_
#define FEDPLUG_CUDA_TOPK_HISTOGRAM_H_

#include <cstdint>

#include "core/base/floats.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk/job.h"

namespace fedplug::cuda::topk {

// Adding the constant 1 compiles to an instruction that combines lanes with the
// same digit, so that a tensor of zeros does not serialize on one counter.
FEDPLUG_HOST_DEVICE inline void CountOne(std::uint32_t* counter) {
  AtomicAdd(counter, 1);
}

// The digits of a round, for keys with the digits of the k-th largest so far.
template <typename T>
struct RoundDigits {
  FloatBitsOf<T> prefix;
  int round;

  FEDPLUG_HOST_DEVICE bool Counts(T a) const {
    return PrefixOf(a, round - 1) == prefix;
  }
  FEDPLUG_HOST_DEVICE int Of(T a) const { return DigitOf(a, round); }
};

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

// The bins of a scope from the top down, with the count above each.
//
// REQUIRES: all blocks of the scope have arrived, and none counts any more
struct BinsFromTheTop {
  std::uint32_t counts[kBins];
  ExclusiveScan<kThreads> scan;

  // body(bin, above, here) for every bin, by any one thread: how many are
  // counted in the bins above it, and how many in it.
  template <typename Block, typename Body>
  FEDPLUG_HOST_DEVICE void ForEach(const Block& block,
                                   const std::uint32_t* histogram,
                                   const Body& body) {
    // Once, and neighbours by neighbours: all blocks may want them at a time.
    block.Each([&](int thread) {
      for (int item = 0; item < kBinsPerThread; ++item) {
        const int bin = item * kThreads + thread;
        counts[bin] = LoadArrived(&histogram[bin]);
      }
    });
    ForEach(block, body);
  }

  // The same for the keys that `counts` already has.
  template <typename Block, typename Body>
  FEDPLUG_HOST_DEVICE void ForEach(const Block& block, const Body& body) {
    // A few in a row to each thread.
    const auto bin_of = [](int thread, int item) {
      return kBins - 1 - (thread * kBinsPerThread + item);
    };
    block.Each([&](int thread) {
      std::uint32_t sum = 0;
      for (int item = 0; item < kBinsPerThread; ++item) {
        sum += counts[bin_of(thread, item)];
      }
      scan.value[thread] = sum;
    });
    scan.Run(block, kThreads);
    block.Each([&](int thread) {
      std::uint32_t above = scan.Before(thread);
      for (int item = 0; item < kBinsPerThread; ++item) {
        const int bin = bin_of(thread, item);
        body(bin, above, counts[bin]);
        above += counts[bin];
      }
    });
  }
};

// Whether rank `rank` from the top, counted from 1, is in a bin that `here` are
// counted in, and `above` in those above it.
FEDPLUG_HOST_DEVICE inline bool IsInBin(std::uint32_t rank, std::uint32_t above,
                                        std::uint32_t here) {
  return above < rank && rank <= above + here;
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_HISTOGRAM_H_
