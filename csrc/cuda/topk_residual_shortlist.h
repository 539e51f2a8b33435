// The steps that walk over the shortlist which PartitionPass made: Refine,
// which counts by further digits, and CountChosen, ScanChunks and Emit, which
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

// Where the entries of each tile begin among those of the chunk, which are
// numbered through; the last is how many there are.
struct ChunkEntries {
  std::uint32_t begin[kMostTilesOfChunk + 1];

  // Ends with a barrier.
  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void Count(const Block& block, const Job<T>& job,
                                 const Chunk& chunk) {
    block.Each([&](int thread) {
      if (thread > kMostTilesOfChunk) return;
      std::uint32_t before = 0;
      for (int t = 0; t < thread && t < chunk.tiles; ++t) {
        before += job.shortlisted[chunk.first_tile + t];
      }
      begin[thread] = before;
    });
  }

  FEDPLUG_HOST_DEVICE int Total() const {
    return static_cast<int>(begin[kMostTilesOfChunk]);
  }

  // The index in the tensor of entry j.
  template <typename T>
  FEDPLUG_HOST_DEVICE std::int64_t IndexOf(const Job<T>& job,
                                           const Chunk& chunk, int j) const {
    const auto entry = static_cast<std::uint32_t>(j);
    int tile = 0;
    for (int step = kMostTilesOfChunk / 2; step > 0; step /= 2) {
      if (begin[tile + step] <= entry) tile += step;
    }
    const std::int64_t start = (chunk.first_tile + tile) * kTile;
    return start + job.shortlist[start + (entry - begin[tile])];
  }
};

// The chunk's shortlisted entries, one after the other, for one thread.
// body(index in the tensor)
template <typename T, typename Body>
FEDPLUG_HOST_DEVICE void ForShortlisted(const Job<T>& job, const Chunk& chunk,
                                        const ChunkEntries& entries, int thread,
                                        const Body& body) {
  for (int j = thread; j < entries.Total(); j += kThreads) {
    body(entries.IndexOf(job, chunk, j));
  }
}

template <typename T>
struct Refine {
  int round;

  struct Shared {
    std::uint32_t histogram[kBins];
    ChunkEntries entries;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Chunk& chunk,
                                      Shared& shared) const {
    const auto threshold =
        PrefixOfThreshold<T>(job.scope.state->thresholds[round - 1]);
    ClearHistogram(block, shared.histogram);
    shared.entries.Count(block, job, chunk);
    block.Each([&](int thread) {
      ForShortlisted(job, chunk, shared.entries, thread, [&](std::int64_t i) {
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
    ChunkState chosen;
    ChunkEntries entries;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Chunk& chunk,
                                      Shared& shared) const {
    const auto threshold = PrefixOfThreshold<T>(FinalThreshold(job));
    shared.entries.Count(block, job, chunk);
    block.Each([&](int thread) {
      if (thread == 0) shared.chosen = {0, 0};
    });
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      ForShortlisted(job, chunk, shared.entries, thread, [&](std::int64_t i) {
        const auto key = MagnitudeKey(job.tensor.residual_out[i]);
        above += key > threshold ? 1 : 0;
        ties += key == threshold ? 1 : 0;
      });
      if (above > 0) AtomicAdd(&shared.chosen.above, above);
      if (ties > 0) AtomicAdd(&shared.chosen.ties, ties);
    });
    block.Each([&](int thread) {
      if (thread == 0) job.chunks[chunk.number] = shared.chosen;
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

template <typename T>
struct Emit {
  // So many entries of the chunk are ranked at a time: nearly always all.
  static constexpr int kBatch = kTile;

  struct Shared {
    RankedBits<kBatch> above;
    RankedBits<kBatch> ties;
    ChunkEntries entries;
    ChunkState before;  // of the scope, before this batch
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Chunk& chunk,
                                      Shared& shared) const {
    const Threshold threshold = FinalThreshold(job);
    shared.entries.Count(block, job, chunk);
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.before = job.chunks[chunk.number];
      if (chunk.number == 0 && job.row_split != nullptr) {
        *job.row_split = std::int64_t{shared.before.above} +
                         Leaving(shared.before.ties, threshold);
      }
    });
    const int listed = shared.entries.Total();
    for (int begin = 0; begin < listed; begin += kBatch) {
      const int left = listed - begin;
      EmitBatch(block, job, chunk, threshold, begin,
                left < kBatch ? left : kBatch, shared);
    }
  }

  // Ties leave in the order of their positions, so that those which leave of
  // all before an entry are the first `wanted` of them.
  FEDPLUG_HOST_DEVICE static std::uint32_t Leaving(std::uint32_t ties,
                                                   const Threshold& threshold) {
    return ties < threshold.wanted ? ties : threshold.wanted;
  }

  // The entries of the chunk from number `begin` on.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void EmitBatch(const Block& block, const Job<T>& job,
                                     const Chunk& chunk,
                                     const Threshold& threshold, int begin,
                                     int size, Shared& shared) const {
    block.Each([&](int thread) {
      for (int first = 0; first < size; first += kThreads) {
        const int j = first + thread;
        bool above = false;
        bool tie = false;
        if (j < size) {
          const auto i = shared.entries.IndexOf(job, chunk, begin + j);
          const auto key = MagnitudeKey(job.tensor.residual_out[i]);
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
        const auto i = shared.entries.IndexOf(job, chunk, begin + j);
        job.tensor.values[rank] = job.tensor.residual_out[i];
        job.tensor.indices[rank] = static_cast<std::int32_t>(i);
        job.tensor.residual_out[i] = T{};
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

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_SHORTLIST_H_
