// The steps that walk over entries which may be chosen: Refine, which counts
// them by further digits, and CountChosen, SumBefore and Emit, which take the
// chosen ones out. A part, which one block walks over, has them on pages:
//   part.number               its place among those of the scope
//   part.ForPages(job, body)  body(job of its tensor, page) for each, in order
//   page.BeginsTensor()       whether none of its tensor comes before
// A struct in the shared memory of a block finds them, Entries, a parameter of
// a step:
//   Open(block, job, page)    finds those of a page; ends with a barrier
//   Total(page)               how many there are, in the order of indices
//   At(job, page, j)          number j of them; its value is in the residual
#ifndef FEDPLUG_CUDA_TOPK_ENTRIES_H_
#define FEDPLUG_CUDA_TOPK_ENTRIES_H_

#include <cstdint>

#include "core/base/float_bits.h"
#include "core/base/host_device.h"
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

// Number of entries that a thread fetches before it uses the first: each takes
// two dependent reads.
inline constexpr int kEntriesAtOnce = 4;

// fetched[i] is entry first + i * kThreads of a page of `total`, or the first
// again where that is beyond its end.
//
// REQUIRES: first < total, or no thread changes the residual
template <typename T, typename Entries, typename Page>
FEDPLUG_HOST_DEVICE void FetchEntries(const Entries& entries, const Job<T>& job,
                                      const Page& page, int first, int total,
                                      Entry<T> (&fetched)[kEntriesAtOnce]) {
  const int last = first < total ? first : total - 1;
  for (int i = 0; i < kEntriesAtOnce; ++i) {
    const int j = first + i * kThreads;
    fetched[i] = entries.At(job, page, j < total ? j : last);
  }
}

// body(value) for those entries of the page that a thread takes.
template <typename T, typename Entries, typename Page, typename Body>
FEDPLUG_HOST_DEVICE void ForValues(const Entries& entries, const Job<T>& job,
                                   const Page& page, int thread,
                                   const Body& body) {
  const int total = entries.Total(page);
  for (int first = thread; first < total; first += kEntriesAtOnce * kThreads) {
    Entry<T> fetched[kEntriesAtOnce];
    FetchEntries(entries, job, page, first, total, fetched);
    for (int i = 0; i < kEntriesAtOnce; ++i) {
      if (first + i * kThreads < total) body(fetched[i].value);
    }
  }
}

// Counts those entries of a block that `digits` counts (histogram.h).
template <typename Entries>
struct EntryCounts {
  std::uint32_t histogram[kBins];
  Entries entries;

  template <typename Block, typename T, typename Part, typename Digits>
  FEDPLUG_HOST_DEVICE void Add(const Block& block, const Job<T>& job,
                               const Part& part, const Digits& digits) {
    ClearHistogram(block, histogram);
    part.ForPages(job, [&](const Job<T>& of, const auto& page) {
      entries.Open(block, of, page);
      block.Each([&](int thread) {
        ForValues(entries, of, page, thread, [&](T a) {
          if (digits.Counts(a)) CountOne(&histogram[digits.Of(a)]);
        });
      });
    });
    AddHistogram(block, histogram, job.scope.histogram);
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
  return job.scope.decisions->thresholds[kRounds<T> - 1];
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
    block.Each([&](int thread) {
      if (thread == 0) shared.chosen = {0, 0};
    });
    part.ForPages(job, [&](const Job<T>& of, const auto& page) {
      shared.entries.Open(block, of, page);
      block.Each([&](int thread) {
        std::uint32_t above = 0;
        std::uint32_t ties = 0;
        ForValues(shared.entries, of, page, thread, [&](T a) {
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

// Computes how many entries are chosen in the parts before this one; the same
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

template <typename T, typename Entries>
struct Emit {
  // Number of entries of a page that are ranked at a time: nearly always all.
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
    block.Each([&](int thread) {
      if (thread == 0) shared.before = job.scope.decisions->before;
    });
    part.ForPages(job, [&](const Job<T>& of, const auto& page) {
      if (page.BeginsTensor() && of.row_split != nullptr) {
        block.Each([&](int thread) {
          if (thread != 0) return;
          *of.row_split = std::int64_t{shared.before.above} +
                          Leaving(shared.before.ties, threshold);
        });
      }
      shared.entries.Open(block, of, page);
      const int total = shared.entries.Total(page);
      int begin = 0;
      do {  // once at least: all must have read the total before the next page
        const int left = total - begin;
        EmitBatch(block, of, page, threshold, begin,
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

  // The entries of a page, from number `begin` on.
  template <typename Block, typename Page>
  FEDPLUG_HOST_DEVICE void EmitBatch(const Block& block, const Job<T>& job,
                                     const Page& page,
                                     const Threshold& threshold, int begin,
                                     int size, Shared& shared) const {
    const auto threshold_key = PrefixOfThreshold<T>(threshold);
    block.Each([&](int thread) {
      for (int first = thread; first - thread < size;
           first += kEntriesAtOnce * kThreads) {
        Entry<T> fetched[kEntriesAtOnce];
        FetchEntries(shared.entries, job, page, begin + first, begin + size,
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
        FetchEntries(shared.entries, job, page, begin + first, begin + size,
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
