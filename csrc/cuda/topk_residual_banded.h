// The selection from one tensor that is too large to stay in shared memory: one
// launch, of as many blocks as the device runs together, which wait for each
// other and go each from tile to tile. The method is the core's, Floyd and
// Rivest's SELECT (core/topk/select.h):
//   CountSample    counts a sample of the keys; a band of them follows that
//                  holds the k-th largest, probably
//   AddAndList     adds up, writes the sums to residual_out, and lists, tile by
//                  tile, what is in the band or above it; counts it by the bins
//                  of the band
//   Settle         where a sum is refused, gives every residual back: the end;
//                  otherwise writes the few sums that the log has held back
//   ListAgain      where the band missed, which it hardly ever does: lists from
//                  the sums
//   RefineBand     counts what is listed by the bins of a narrower band, until
//                  that is one key
//   CountChosen, Emit
//                  as in topk_residual_steps.h
// Behind each but Settle and Emit is a barrier of the whole grid, and every
// block does for itself what follows from all counts
// (topk_residual_together.h): all come to the same, and so take the same way.
// COST, per element: AddAndList reads delta
// and residual_in and writes residual_out, 3 * sizeof(T) bytes; under kError in
// place it writes 2 bytes of log besides. Per listed entry, 2 bytes of scratch
// and one gather from residual_out for each later step. Before, a sample of
// 1/16 of the elements, 2^17 at most, is read, twice where they have 8 bytes. A
// band that missed costs 2 * sizeof(T) + 2 bytes an element more; a refusal,
// 3 * sizeof(T), and 2 where there is a log. 1 launch; barriers of the grid,
// where the band is no wider than usual: 4 for 16 bits, 5 for float, 9 for
// double. Must not know the CUDA runtime: tests run these steps on the CPU.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_BANDED_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_BANDED_H_

#include <algorithm>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/topk/sample.h"
#include "cuda/topk_residual_band.h"
#include "cuda/topk_residual_entries.h"
#include "cuda/topk_residual_groups.h"
#include "cuda/topk_residual_histogram.h"
#include "cuda/topk_residual_job.h"
#include "cuda/topk_residual_shortlist.h"
#include "cuda/topk_residual_steps.h"
#include "cuda/topk_residual_sums.h"
#include "cuda/topk_residual_together.h"
#include "cuda/topk_residual_undo.h"

namespace fedplug::cuda::topk {

// What is sampled, and between which of its ranks the k-th largest lies.
struct Sample {
  std::int64_t lines;
  SampleRanks ranks;
};

// So many lines are one element to each thread of 256 blocks.
inline constexpr std::int64_t kMostLines = 8192;

// Nothing of less than 256 elements: the band is all keys then.
inline Sample SampleOf(std::int64_t n, std::int64_t k) {
  using fedplug::topk::kLine;
  const std::int64_t lines = std::min(kMostLines, n / (16 * kLine));
  if (lines == 0) return {0, {0, 1}};
  SampleRanks ranks =
      fedplug::topk::RanksInSample(lines * kLine, std::min(k, n), n);
  ranks.upper = std::max<std::int64_t>(ranks.upper, 0);
  return {lines, ranks};
}

// Where a line of the sample begins, in a tensor of n elements.
FEDPLUG_HOST_DEVICE inline std::int64_t LineAt(std::int64_t line,
                                               std::int64_t lines,
                                               std::int64_t n) {
  using fedplug::topk::kLine;
  const std::int64_t begin =
      fedplug::topk::PlaceOfLine(line, lines, n) / kLine * kLine;
  const std::int64_t last = n - kLine;
  return begin < last ? begin : last;
}

// What one block of the grid takes: some tiles in a row, as many as any other,
// or one more. In AddAndList, whose time is that of the memory, blocks take
// instead whichever tile is next: none waits for one that is slower, and all
// walk through the memory together.
struct Span {
  int number;
  int blocks;
  int first_tile;
  int tiles;
  std::int64_t lines;  // that all blocks sample
  UndoLog log;

  // body(tile), in order
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForTiles(std::int64_t n, const Body& body) const {
    for (int t = first_tile; t < first_tile + tiles; ++t) {
      body(Tile::At(t, n));
    }
  }

  // As topk_residual_entries.h and ChunkEntries have it.
  FEDPLUG_HOST_DEVICE int Pages() const {
    return (tiles + kMostTilesOfChunk - 1) / kMostTilesOfChunk;
  }
  FEDPLUG_HOST_DEVICE Chunk Page(int page) const {
    const int before = page * kMostTilesOfChunk;
    const int left = tiles - before;
    return {number, first_tile + before,
            left < kMostTilesOfChunk ? left : kMostTilesOfChunk};
  }
  template <typename T>
  FEDPLUG_HOST_DEVICE ChunkState Before(const Job<T>& job) const {
    return job.scope.decisions->before;
  }
};

// What a launch is for: the only tensor of a request.
template <typename T>
struct BandedCall {
  Job<T> job;
  NonFinitePolicy policy;
  Sample sample;
  UndoLog log;

  // REQUIRES: blocks <= kMostShares
  FEDPLUG_HOST_DEVICE Span SpanOf(std::int64_t number,
                                  std::int64_t blocks) const {
    const auto tiles = static_cast<int>(TilesOf(job.tensor.n));
    const auto of = static_cast<int>(blocks);
    const auto i = static_cast<int>(number);
    // The first ones have one more.
    const int each = tiles / of;
    const int more = tiles % of;
    return {i,
            of,
            each * i + (i < more ? i : more),
            each + (i < more ? 1 : 0),
            sample.lines,
            log};
  }
};

// REQUIRES: request.count == 1; the workspace is one for TopKWay::kBanded
template <typename T>
BandedCall<T> MakeBandedCall(const Request<T>& request, NonFinitePolicy policy,
                             const Workspace& workspace, TopKReport* reports) {
  const TopKTensor<T>& tensor = request.tensors[0];
  return {OnlyJob(request, workspace, reports),
          policy,
          SampleOf(tensor.n, tensor.k),
          {workspace.distances, workspace.held_back}};
}

// Sums that are not finite count as zeros: they are refused later, or are.
template <typename T>
struct CountSample {
  int round;

  struct Shared {
    std::uint32_t histogram[kBins];
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    using fedplug::topk::kLine;
    const TopKTensor<T>& tensor = job.tensor;
    const Band<T> band =
        BandOf<T>(round == 0 ? AllKeys<T>(0) : job.scope.decisions->band);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      for (std::int64_t i = span.number * kThreads + thread;
           i < span.lines * kLine; i += span.blocks * kThreads) {
        const std::int64_t at =
            LineAt(i / kLine, span.lines, tensor.n) + i % kLine;
        const T a =
            NonFiniteItems().Drop(tensor.delta[at] + tensor.residual_in[at], 0);
        if (band.Counts(a)) CountOne(&shared.histogram[band.Of(a)]);
      }
    });
    AddHistogram(block, shared.histogram, job.scope.histogram);
  }
};

template <typename T>
struct AddAndList {
  NonFinitePolicy policy;

  struct Shared {
    Partition<T> partition;
    NonFiniteCounts non_finite;
    std::uint32_t next[2];  // tiles of this block, in turn
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.decisions->band);
    ClearHistogram(block, shared.partition.histogram);
    shared.non_finite.Clear(block);
    // The first one needs no asking, and the next is asked for early.
    const auto tiles = static_cast<std::uint32_t>(TilesOf(job.tensor.n));
    auto number = static_cast<std::uint32_t>(span.number);
    for (int turn = 0; number < tiles; turn = 1 - turn) {
      const Tile tile = Tile::At(number, job.tensor.n);
      std::uint32_t* const next = &shared.next[turn];
      shared.partition.Add(
          block, job, tile, band, [&](int thread, T(&sums)[kItems]) {
            if (thread == 0) {
              *next = static_cast<std::uint32_t>(span.blocks) +
                      AtomicAdd(&job.scope.state->taken, 1);
            }
            Add(job, tile, thread, span.log, sums, shared.non_finite);
          });
      number = *next;
    }
    AddHistogram(block, shared.partition.histogram, job.scope.histogram);
    shared.non_finite.Publish(block, job);
  }

  // Adds up a thread's sums of the tile and writes them.
  FEDPLUG_HOST_DEVICE void Add(const Job<T>& job, const Tile& tile, int thread,
                               const UndoLog& log, T (&sums)[kItems],
                               NonFiniteCounts& non_finite) const {
    const TopKTensor<T>& tensor = job.tensor;
    const bool logged = IsLogged(tensor, policy);
    const UndoNotes<T> notes = log.NotesOf(tensor);
    const int left = tile.size - thread;
    const std::int64_t begin = tile.begin + thread;
    T residuals[kItems];
    LoadItems(tensor.delta, begin, left, sums);
    LoadItems(tensor.residual_in, begin, left, residuals);
    NonFiniteItems items;
    std::uint32_t held_back = 0;
    ForItems(left, [&](int item) {
      const std::int64_t i = begin + item * kThreads;
      const T delta = sums[item];
      const T a = delta + residuals[item];
      sums[item] = items.Drop(a, item);
      if (logged && !notes.Note(i, a, delta, residuals[item])) {
        ++held_back;
      } else {
        tensor.residual_out[i] = sums[item];
      }
    });
    non_finite.Add(items, begin, tensor.n);
    if (held_back > 0) log.HoldBack(job, tile, held_back);
  }
};

// Nobody waits for the others here: what follows walks over the same tiles.
// Also writes the report.
template <typename T>
struct Settle {
  NonFinitePolicy policy;

  struct Shared {};

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared&) const {
    if (span.number == 0) WriteReport(block, job);
    if (!IsRefused(job, policy)) {
      for (int page = 0; page < span.Pages(); ++page) {
        WriteHeldBack(block, job, span.Page(page), span.log);
      }
      return;
    }
    span.ForTiles(job.tensor.n, [&](const Tile& tile) {
      if (IsLogged(job.tensor, policy)) {
        Undo(block, job, tile, span.log);
      } else {
        CopyResidual(block, job.tensor, tile.begin, tile.size);
      }
    });
  }
};

template <typename T>
struct ListAgain {
  using Shared = Partition<T>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.decisions->band);
    const TopKTensor<T>& tensor = job.tensor;
    ClearHistogram(block, shared.histogram);
    span.ForTiles(tensor.n, [&](const Tile& tile) {
      shared.Add(block, job, tile, band, [&](int thread, T(&sums)[kItems]) {
        LoadItems(tensor.residual_out, tile.begin + thread, tile.size - thread,
                  sums);
      });
    });
    AddHistogram(block, shared.histogram, job.scope.histogram);
  }
};

template <typename T>
struct RefineBand {
  using Shared = EntryCounts<ChunkEntries>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    shared.Add(block, job, span, BandOf<T>(job.scope.decisions->band));
  }
};

// The order of the steps. Launcher has Each(step), which runs a step on every
// span, after all that was asked for before, Last(step), the same for a step
// that no other block waits for, and decisions(), what the block has concluded:
// all blocks come to the same.
template <typename T, typename Launcher>
FEDPLUG_HOST_DEVICE void RunBandedSteps(const BandedCall<T>& call,
                                        Launcher& launcher) {
  const Decisions& decisions = launcher.decisions();
  for (int round = 0; round < kSampleRounds<T>; ++round) {
    launcher.Each(
        Then{CountSample<T>{round}, FindBand<T>{round, call.sample.ranks}});
  }
  launcher.Each(Then{AddAndList<T>{call.policy}, Narrow<T>{}});
  launcher.Last(Settle<T>{call.policy});
  if (IsRefused(call.job, call.policy)) return;
  while (decisions.lists_again != 0) {
    launcher.Each(Then{ListAgain<T>{}, Narrow<T>{}});
  }
  while (decisions.band.bits > 0) {
    launcher.Each(Then{RefineBand<T>{}, Narrow<T>{}});
  }
  launcher.Each(Then{CountChosen<T, ChunkEntries>{}, SumBefore<T>{}});
  launcher.Last(Emit<T, ChunkEntries>{});
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_BANDED_H_
