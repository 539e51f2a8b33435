// The steps that walk over the shortlist which PartitionPass made: Refine,
// which counts by further digits, and CountChosen, ScanTiles and Emit, which
// take the chosen entries out. Must not know delta.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_SHORTLIST_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_SHORTLIST_H_

#include <cstdint>

#include "core/base/float_bits.h"
#include "core/base/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk_residual_histogram.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

// The tile's shortlisted entries, one after the other, for one thread.
// body(position in the shortlist, index in the tensor)
template <typename T, typename Body>
FEDPLUG_HOST_DEVICE void ForShortlisted(const Job<T>& job, const Tile& tile,
                                        int thread, const Body& body) {
  const int shortlisted = static_cast<int>(job.tiles[tile.number].shortlisted);
  for (int j = thread; j < shortlisted; j += kThreads) {
    body(j, tile.begin + job.shortlist[tile.begin + j]);
  }
}

template <typename T>
struct Refine {
  int round;

  struct Shared {
    std::uint32_t histogram[kBins];
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const auto threshold =
        PrefixOfThreshold<T>(job.scope.state->thresholds[round - 1]);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      ForShortlisted(job, tile, thread, [&](int, std::int64_t i) {
        const T a = job.tensor.residual_out[i];
        if (PrefixOf(a, round - 1) == threshold) {
          CountOne(&shared.histogram[DigitOf(a, round)]);
        }
      });
    });
    AddHistogram(block, shared.histogram, job.scope.state->histogram);
  }
};

// The key of the k-th largest, and how many of the entries that have it leave.
template <typename T>
FEDPLUG_HOST_DEVICE Threshold FinalThreshold(const Job<T>& job) {
  return job.scope.state->thresholds[kRounds<T> - 1];
}

template <typename T>
struct CountChosen {
  struct Shared {
    std::uint32_t above;
    std::uint32_t ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const auto threshold = PrefixOfThreshold<T>(FinalThreshold(job));
    block.Each([&](int thread) {
      if (thread == 0) shared.above = shared.ties = 0;
    });
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      ForShortlisted(job, tile, thread, [&](int, std::int64_t i) {
        const auto key = MagnitudeKey(job.tensor.residual_out[i]);
        above += key > threshold ? 1 : 0;
        ties += key == threshold ? 1 : 0;
      });
      if (above > 0) AtomicAdd(&shared.above, above);
      if (ties > 0) AtomicAdd(&shared.ties, ties);
    });
    block.Each([&](int thread) {
      if (thread != 0) return;
      job.tiles[tile.number].above = shared.above;
      job.tiles[tile.number].ties = shared.ties;
    });
  }
};

// Adds up, tile by tile, what CountChosen found in those before it.
//
// REQUIRES: the block is the last of the scope to arrive
struct ScanTiles {
  struct Shared {
    ExclusiveScan<kThreads> above;
    ExclusiveScan<kThreads> ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Scope& scope,
                                      Shared& shared) const {
    const std::int64_t tiles = scope.tile_count;
    const std::int64_t share = (tiles + kThreads - 1) / kThreads;
    const auto end_of = [=](int thread) {
      const std::int64_t end = (thread + 1) * share;
      return end < tiles ? end : tiles;
    };
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      for (std::int64_t t = thread * share; t < end_of(thread); ++t) {
        above += LoadArrived(&scope.tiles[t].above);
        ties += LoadArrived(&scope.tiles[t].ties);
      }
      shared.above.value[thread] = above;
      shared.ties.value[thread] = ties;
    });
    shared.above.Run(block, kThreads);
    shared.ties.Run(block, kThreads);
    block.Each([&](int thread) {
      std::uint32_t above = shared.above.Before(thread);
      std::uint32_t ties = shared.ties.Before(thread);
      for (std::int64_t t = thread * share; t < end_of(thread); ++t) {
        const std::uint32_t above_here = LoadArrived(&scope.tiles[t].above);
        const std::uint32_t ties_here = LoadArrived(&scope.tiles[t].ties);
        scope.tiles[t].above = above;
        scope.tiles[t].ties = ties;
        above += above_here;
        ties += ties_here;
      }
      if (thread == 0 && scope.row_splits_end != nullptr) {
        *scope.row_splits_end = scope.chosen;
      }
    });
  }
};

template <typename T>
struct Emit {
  struct Shared {
    RankedBits<kTile> above;
    RankedBits<kTile> ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const Threshold threshold = FinalThreshold(job);
    const TileState before = job.tiles[tile.number];
    const int listed = static_cast<int>(before.shortlisted);
    // Ties leave in the order of their positions, so that those which leave of
    // all before an entry are the first `wanted` of them.
    const auto leaving = [&](std::uint32_t ties) {
      return ties < threshold.wanted ? ties : threshold.wanted;
    };
    block.Each([&](int thread) {
      if (thread == 0 && tile.number == 0 && job.row_split != nullptr) {
        *job.row_split = std::int64_t{before.above} + leaving(before.ties);
      }
      for (int first = 0; first < listed; first += kThreads) {
        const int j = first + thread;
        bool above = false;
        bool tie = false;
        if (j < listed) {
          const int place = job.shortlist[tile.begin + j];
          const auto key =
              MagnitudeKey(job.tensor.residual_out[tile.begin + place]);
          above = key > PrefixOfThreshold<T>(threshold);
          tie = key == PrefixOfThreshold<T>(threshold);
        }
        shared.above.Mark(thread, j, above);
        shared.ties.Mark(thread, j, tie);
      }
    });
    if (listed == 0) return;
    shared.above.Run(block, kThreads, listed);
    shared.ties.Run(block, kThreads, listed);
    block.Each([&](int thread) {
      ForShortlisted(job, tile, thread, [&](int j, std::int64_t i) {
        const bool above = shared.above.Has(j);
        const bool tie = shared.ties.Has(j);
        const std::uint32_t ties = before.ties + shared.ties.Before(j);
        if (!above && !(tie && ties < threshold.wanted)) return;
        const std::int64_t rank =
            std::int64_t{before.above} + shared.above.Before(j) + leaving(ties);
        job.tensor.values[rank] = job.tensor.residual_out[i];
        job.tensor.indices[rank] = static_cast<std::int32_t>(i);
        job.tensor.residual_out[i] = T{};
      });
    });
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_SHORTLIST_H_
