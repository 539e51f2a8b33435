// The steps that walk over entries which may be chosen: Refine, which counts
// them by further digits, and CountChosen, ScanChunks and Emit, which take the
// chosen ones out. Where a block finds its entries is the business of a struct
// in its shared memory, for a step a parameter, Entries:
//   Open(block, job, part)  finds them; ends with a barrier
//   Total(part)             how many there are, in the order of their indices
//   At(job, part, j)        entry number j; its value is in the residual
// Must not know delta.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_ENTRIES_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_ENTRIES_H_

#include <cstdint>

#include "core/base/float_bits.h"
#include "core/base/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk_residual_histogram.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

template <typename T>
struct Entry {
  std::int64_t index;  // in the tensor
  T value;
};

// Counts those entries of a block that `digits` counts
// (topk_residual_histogram.h).
template <typename Entries>
struct EntryCounts {
  std::uint32_t histogram[kBins];
  Entries entries;

  template <typename Block, typename T, typename Part, typename Digits>
  FEDPLUG_HOST_DEVICE void Add(const Block& block, const Job<T>& job,
                               const Part& part, const Digits& digits) {
    ClearHistogram(block, histogram);
    entries.Open(block, job, part);
    block.Each([&](int thread) {
      for (int j = thread; j < entries.Total(part); j += kThreads) {
        const T a = entries.At(job, part, j).value;
        if (digits.Counts(a)) CountOne(&histogram[digits.Of(a)]);
      }
    });
    AddHistogram(block, histogram, job.scope.state->histogram);
  }
};

template <typename T, typename Entries>
struct Refine {
  int round;

  using Shared = EntryCounts<Entries>;

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    shared.Add(block, job, part, DigitsBehind<T>(job.scope, round));
  }
};

// The key of the k-th largest, and how many of the entries that have it leave.
template <typename T>
FEDPLUG_HOST_DEVICE Threshold FinalThreshold(const Job<T>& job) {
  return job.scope.state->thresholds[kRounds<T> - 1];
}

template <typename T, typename Entries>
struct CountChosen {
  struct Shared {
    ChunkState chosen;
    Entries entries;
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    const auto threshold = PrefixOfThreshold<T>(FinalThreshold(job));
    shared.entries.Open(block, job, part);
    block.Each([&](int thread) {
      if (thread == 0) shared.chosen = {0, 0};
    });
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      for (int j = thread; j < shared.entries.Total(part); j += kThreads) {
        const auto key = MagnitudeKey(shared.entries.At(job, part, j).value);
        above += key > threshold ? 1 : 0;
        ties += key == threshold ? 1 : 0;
      }
      if (above > 0) AtomicAdd(&shared.chosen.above, above);
      if (ties > 0) AtomicAdd(&shared.chosen.ties, ties);
    });
    block.Each([&](int thread) {
      if (thread == 0) job.chunks[part.number] = shared.chosen;
    });
  }
};

// Adds up, chunk by chunk, what CountChosen found in those before it.
//
// REQUIRES: the block is the last of the scope to arrive
struct ScanChunks {
  struct Shared {
    ExclusiveScan<kThreads> above;
    ExclusiveScan<kThreads> ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Scope& scope,
                                      Shared& shared) const {
    const std::int64_t chunks = scope.chunk_count;
    const std::int64_t share = (chunks + kThreads - 1) / kThreads;
    const auto end_of = [=](int thread) {
      const std::int64_t end = (thread + 1) * share;
      return end < chunks ? end : chunks;
    };
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      for (std::int64_t c = thread * share; c < end_of(thread); ++c) {
        above += LoadArrived(&scope.chunks[c].above);
        ties += LoadArrived(&scope.chunks[c].ties);
      }
      shared.above.value[thread] = above;
      shared.ties.value[thread] = ties;
    });
    shared.above.Run(block, kThreads);
    shared.ties.Run(block, kThreads);
    block.Each([&](int thread) {
      std::uint32_t above = shared.above.Before(thread);
      std::uint32_t ties = shared.ties.Before(thread);
      for (std::int64_t c = thread * share; c < end_of(thread); ++c) {
        const std::uint32_t above_here = LoadArrived(&scope.chunks[c].above);
        const std::uint32_t ties_here = LoadArrived(&scope.chunks[c].ties);
        scope.chunks[c].above = above;
        scope.chunks[c].ties = ties;
        above += above_here;
        ties += ties_here;
      }
      if (thread == 0 && scope.row_splits_end != nullptr) {
        *scope.row_splits_end = scope.chosen;
      }
    });
  }
};

template <typename T, typename Entries>
struct Emit {
  // So many entries of a block are ranked at a time: nearly
  // always all.
  static constexpr int kBatch = kTile;

  struct Shared {
    RankedBits<kBatch> above;
    RankedBits<kBatch> ties;
    Entries entries;
    ChunkState before;  // of the scope, before this batch
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    const Threshold threshold = FinalThreshold(job);
    shared.entries.Open(block, job, part);
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.before = job.chunks[part.number];
      if (part.number == 0 && job.row_split != nullptr) {
        *job.row_split = std::int64_t{shared.before.above} +
                         Leaving(shared.before.ties, threshold);
      }
    });
    const int total = shared.entries.Total(part);
    for (int begin = 0; begin < total; begin += kBatch) {
      const int left = total - begin;
      EmitBatch(block, job, part, threshold, begin,
                left < kBatch ? left : kBatch, shared);
    }
  }

  // Ties leave in the order of their positions, so that those which leave of
  // all before an entry are the first `wanted` of them.
  FEDPLUG_HOST_DEVICE static std::uint32_t Leaving(std::uint32_t ties,
                                                   const Threshold& threshold) {
    return ties < threshold.wanted ? ties : threshold.wanted;
  }

  // The entries from number `begin` on.
  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void EmitBatch(const Block& block, const Job<T>& job,
                                     const Part& part,
                                     const Threshold& threshold, int begin,
                                     int size, Shared& shared) const {
    block.Each([&](int thread) {
      for (int first = 0; first < size; first += kThreads) {
        const int j = first + thread;
        bool above = false;
        bool tie = false;
        if (j < size) {
          const T a = shared.entries.At(job, part, begin + j).value;
          const auto key = MagnitudeKey(a);
          above = key > PrefixOfThreshold<T>(threshold);
          tie = key == PrefixOfThreshold<T>(threshold);
        }
        shared.above.Mark(thread, j, above);
        shared.ties.Mark(thread, j, tie);
      }
    });
    shared.above.Run(block, kThreads, size);
    shared.ties.Run(block, kThreads, size);
    block.Each([&](int thread) {
      for (int j = thread; j < size; j += kThreads) {
        const bool above = shared.above.Has(j);
        const bool tie = shared.ties.Has(j);
        const std::uint32_t ties = shared.before.ties + shared.ties.Before(j);
        if (!above && !(tie && ties < threshold.wanted)) continue;
        const std::int64_t rank = std::int64_t{shared.before.above} +
                                  shared.above.Before(j) +
                                  Leaving(ties, threshold);
        const Entry<T> entry = shared.entries.At(job, part, begin + j);
        job.tensor.values[rank] = entry.value;
        job.tensor.indices[rank] = static_cast<std::int32_t>(entry.index);
        job.tensor.residual_out[entry.index] = T{};
      }
    });
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.before.above += shared.above.Total();
      shared.before.ties += shared.ties.Total();
    });
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_ENTRIES_H_
