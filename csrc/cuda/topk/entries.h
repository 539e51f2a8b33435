// The steps that walk over the shortlist, the entries which may be chosen:
// EntryCounts, which counts them by the bins of a band, and CountChosen,
// SumBefore and Emit, which take the chosen ones out. A part, which one block
// walks over, has them by chunk:
//   part.number           its place among those of the scope
//   part.ForChunks(body)  body(job of its tensor, chunk) for each, in order
#ifndef FEDPLUG_CUDA_TOPK_ENTRIES_H_
#define FEDPLUG_CUDA_TOPK_ENTRIES_H_

#include <cstdint>

#include "core/base/floats.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"

namespace fedplug::cuda::topk {

template <typename T>
struct Entry {
  std::int64_t index;  // in the tensor
  T value;
};

// The shortlist of a chunk, in the order of indices.
struct ChunkEntries {
  // How many are before each tile, and in all.
  std::uint32_t begin[kMostTilesOfChunk + 1];

  // Ends with a barrier.
  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void Open(const Block& block, const Job<T>& job,
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

  // Entry number j. Its value is in the residual.
  template <typename T>
  FEDPLUG_HOST_DEVICE Entry<T> At(const Job<T>& job, const Chunk& chunk,
                                  int j) const {
    const auto number = static_cast<std::uint32_t>(j);
    int tile = 0;
    for (int step = kMostTilesOfChunk / 2; step > 0; step /= 2) {
      if (begin[tile + step] <= number) tile += step;
    }
    const std::int64_t start = (chunk.first_tile + tile) * kTile;
    const std::int64_t index =
        start + job.shortlist[start + (number - begin[tile])];
    return {index, job.tensor.residual_out[index]};
  }
};

// Number of entries that a thread fetches before it uses the first: each takes
// two dependent reads.
inline constexpr int kEntriesAtOnce = 4;

// fetched[i] is entry first + i * kThreads of a chunk of `total`, or the first
// again where that is beyond its end.
//
// REQUIRES: first < total, or no thread changes the residual
template <typename T>
FEDPLUG_HOST_DEVICE void FetchEntries(const ChunkEntries& entries,
                                      const Job<T>& job, const Chunk& chunk,
                                      int first, int total,
                                      Entry<T> (&fetched)[kEntriesAtOnce]) {
  const int last = first < total ? first : total - 1;
  for (int i = 0; i < kEntriesAtOnce; ++i) {
    const int j = first + i * kThreads;
    fetched[i] = entries.At(job, chunk, j < total ? j : last);
  }
}

// body(value) for those entries of the chunk that a thread takes.
template <typename T, typename Body>
FEDPLUG_HOST_DEVICE void ForValues(const ChunkEntries& entries,
                                   const Job<T>& job, const Chunk& chunk,
                                   int thread, const Body& body) {
  const int total = entries.Total();
  for (int first = thread; first < total; first += kEntriesAtOnce * kThreads) {
    Entry<T> fetched[kEntriesAtOnce];
    FetchEntries(entries, job, chunk, first, total, fetched);
    for (int i = 0; i < kEntriesAtOnce; ++i) {
      if (first + i * kThreads < total) body(fetched[i].value);
    }
  }
}

// Counts the entries of a block by the bins of a band.
struct EntryCounts {
  std::uint32_t histogram[kBins];
  ChunkEntries entries;

  template <typename Block, typename T, typename Part, typename Bins>
  FEDPLUG_HOST_DEVICE void Add(const Block& block, const Job<T>& job,
                               const Part& part, const Bins& bins) {
    ClearHistogram(block, histogram);
    part.ForChunks([&](const Job<T>& of, const Chunk& chunk) {
      entries.Open(block, of, chunk);
      block.Each([&](int thread) {
        ForValues(entries, of, chunk, thread, [&](T a) {
          if (bins.Counts(a)) CountOne(&histogram[bins.Of(a)]);
        });
      });
    });
    AddHistogram(block, histogram, job.scope.histogram);
  }
};

template <typename T>
struct CountChosen {
  struct Shared {
    ChunkState chosen;
    ChunkEntries entries;
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    const auto threshold = PrefixOfThreshold<T>(job.scope.decisions->threshold);
    block.Each([&](int thread) {
      if (thread == 0) shared.chosen = {0, 0};
    });
    part.ForChunks([&](const Job<T>& of, const Chunk& chunk) {
      shared.entries.Open(block, of, chunk);
      block.Each([&](int thread) {
        std::uint32_t above = 0;
        std::uint32_t ties = 0;
        ForValues(shared.entries, of, chunk, thread, [&](T a) {
          const auto key = MagnitudeKey(a);
          above += key > threshold ? 1 : 0;
          ties += key == threshold ? 1 : 0;
        });
        if (above > 0) AtomicAdd(&shared.chosen.above, above);
        if (ties > 0) AtomicAdd(&shared.chosen.ties, ties);
      });
    });
    block.Each([&](int thread) {
      if (thread == 0) job.scope.chunks[part.number] = shared.chosen;
    });
  }
};

// Computes how many entries are chosen in the parts before this one. The same
// in every block of a team.
//
// REQUIRES: all blocks of the team have counted
template <typename T>
struct SumBefore {
  struct Shared {
    ExclusiveScan<kThreads> above;
    ExclusiveScan<kThreads> ties;
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    const Scope& scope = job.scope;
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      for (std::int64_t i = thread; i < part.number; i += kThreads) {
        above += LoadArrived(&scope.chunks[i].above);
        ties += LoadArrived(&scope.chunks[i].ties);
      }
      shared.above.value[thread] = above;
      shared.ties.value[thread] = ties;
    });
    shared.above.Run(block, kThreads);
    shared.ties.Run(block, kThreads);
    block.Each([&](int thread) {
      if (thread != 0) return;
      scope.decisions->before = {shared.above.Total(), shared.ties.Total()};
      if (part.number == 0 && scope.row_splits_end != nullptr) {
        *scope.row_splits_end = scope.chosen;
      }
    });
  }
};

template <typename T>
struct Emit {
  // Number of entries of a chunk that are ranked at a time: nearly always all.
  static constexpr int kBatch = kTile;

  struct Shared {
    RankedBits<kBatch> above;
    RankedBits<kBatch> ties;
    ChunkEntries entries;
    ChunkState before;  // of the scope, before this batch
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    const Threshold threshold = job.scope.decisions->threshold;
    block.Each([&](int thread) {
      if (thread == 0) shared.before = job.scope.decisions->before;
    });
    part.ForChunks([&](const Job<T>& of, const Chunk& chunk) {
      if (chunk.BeginsTensor() && of.row_split != nullptr) {
        block.Each([&](int thread) {
          if (thread != 0) return;
          *of.row_split = std::int64_t{shared.before.above} +
                          Leaving(shared.before.ties, threshold);
        });
      }
      shared.entries.Open(block, of, chunk);
      const int total = shared.entries.Total();
      int begin = 0;
      do {  // once at least: all must have read the total before the next chunk
        const int left = total - begin;
        EmitBatch(block, of, chunk, threshold, begin,
                  left < kBatch ? left : kBatch, shared);
        begin += kBatch;
      } while (begin < total);
    });
  }

  // Ties are selected in the order of their positions: the first `wanted` of
  // them.
  FEDPLUG_HOST_DEVICE static std::uint32_t Leaving(std::uint32_t ties,
                                                   const Threshold& threshold) {
    return ties < threshold.wanted ? ties : threshold.wanted;
  }

  // The entries of a chunk, from number `begin` on.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void EmitBatch(const Block& block, const Job<T>& job,
                                     const Chunk& chunk,
                                     const Threshold& threshold, int begin,
                                     int size, Shared& shared) const {
    const auto threshold_key = PrefixOfThreshold<T>(threshold);
    block.Each([&](int thread) {
      for (int first = thread; first - thread < size;
           first += kEntriesAtOnce * kThreads) {
        Entry<T> fetched[kEntriesAtOnce];
        FetchEntries(shared.entries, job, chunk, begin + first, begin + size,
                     fetched);
        for (int i = 0; i < kEntriesAtOnce; ++i) {
          const int j = first + i * kThreads;
          const auto key = MagnitudeKey(fetched[i].value);
          shared.above.Mark(thread, j, j < size && key > threshold_key);
          shared.ties.Mark(thread, j, j < size && key == threshold_key);
        }
      }
    });
    shared.above.Run(block, kThreads, size);
    shared.ties.Run(block, kThreads, size);
    block.Each([&](int thread) {
      for (int first = thread; first < size;
           first += kEntriesAtOnce * kThreads) {
        Entry<T> fetched[kEntriesAtOnce];
        FetchEntries(shared.entries, job, chunk, begin + first, begin + size,
                     fetched);
        for (int i = 0; i < kEntriesAtOnce; ++i) {
          const int j = first + i * kThreads;
          if (j < size) EmitEntry(job, threshold, fetched[i], j, shared);
        }
      }
    });
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.before.above += shared.above.Total();
      shared.before.ties += shared.ties.Total();
    });
  }

  // Number j of the batch, if it is chosen.
  FEDPLUG_HOST_DEVICE void EmitEntry(const Job<T>& job,
                                     const Threshold& threshold,
                                     const Entry<T>& entry, int j,
                                     const Shared& shared) const {
    const bool above = shared.above.Has(j);
    const bool tie = shared.ties.Has(j);
    const std::uint32_t ties = shared.before.ties + shared.ties.Before(j);
    if (!above && !(tie && ties < threshold.wanted)) return;
    const std::int64_t rank = std::int64_t{shared.before.above} +
                              shared.above.Before(j) + Leaving(ties, threshold);
    job.tensor.values[rank] = entry.value;
    job.tensor.indices[rank] = static_cast<std::int32_t>(entry.index);
    job.tensor.residual_out[entry.index] = T{};
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_ENTRIES_H_
