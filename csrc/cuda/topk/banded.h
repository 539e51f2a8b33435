// The selection from one tensor that is too large to stay in shared memory, or
// from a list with one k: one launch, of as many blocks as the device runs
// together, which wait for each other and walk from tile to tile. The method
// is the core's, Floyd and Rivest's SELECT (core/topk/select.h):
//   CountSample    counts a sample of the keys, which gives a band that
//                  probably contains the k-th largest
//   AddAndList     adds, writes the sums to residual_out, and lists, tile by
//                  tile, the entries in the band or above it; counts them by
//                  the bins of the band
//   Settle         if a sum is refused, restores every residual and ends;
//                  otherwise writes the few sums that the log held back
//   ListAgain      if the band missed, which is rare: lists from the sums
//   RefineBand     counts the listed entries by the bins of a narrower band,
//                  until that is one key
//   CountChosen, Emit
//                  as in steps.h
// After each step but Settle and Emit there is a barrier of the whole grid, and
// every block computes the consequences of all counts itself (together.h), with
// equal results. COST, per element: AddAndList reads delta and residual_in and
// writes residual_out, 3 * sizeof(T) bytes; under kError in place it writes 2
// bytes of log besides. Per listed entry, 2 bytes of scratch and one gather
// from residual_out for each later step. Before, a sample of 1/16 of the
// elements, 2^17 at most, is read, twice where they have 8 bytes. A missed band
// costs 2 * sizeof(T) + 2 bytes an element more; a refusal, 3 * sizeof(T), and
// 2 where there is a log. 1 launch; barriers of the grid, where the band is no
// wider than usual: 5 for float, 9 for double.
#ifndef FEDPLUG_CUDA_TOPK_BANDED_H_
#define FEDPLUG_CUDA_TOPK_BANDED_H_

#include <algorithm>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/topk/sample.h"
#include "cuda/topk/band.h"
#include "cuda/topk/entries.h"
#include "cuda/topk/groups.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"
#include "cuda/topk/shortlist.h"
#include "cuda/topk/steps.h"
#include "cuda/topk/sums.h"
#include "cuda/topk/together.h"
#include "cuda/topk/undo.h"

namespace fedplug::cuda::topk {

// The sample, and the ranks that bracket the k-th largest.
struct Sample {
  std::int64_t lines;
  SampleRanks ranks;
};

// This number of lines is one element for each thread of 256 blocks.
inline constexpr std::int64_t kMostLines = 8192;

// Fewer than 256 elements are not sampled: the band is then all keys.
inline Sample SampleOf(std::int64_t n, std::int64_t k) {
  using fedplug::topk::kLine;
  const std::int64_t lines = std::min(kMostLines, n / (16 * kLine));
  if (lines == 0) return {0, {0, 1}};
  SampleRanks ranks =
      fedplug::topk::RanksInSample(lines * kLine, std::min(k, n), n);
  ranks.upper = std::max<std::int64_t>(ranks.upper, 0);
  return {lines, ranks};
}

// Where a line of the sample begins, among n elements.
FEDPLUG_HOST_DEVICE inline std::int64_t LineAt(std::int64_t line,
                                               std::int64_t lines,
                                               std::int64_t n) {
  using fedplug::topk::kLine;
  const std::int64_t begin =
      fedplug::topk::PlaceOfLine(line, lines, n) / kLine * kLine;
  const std::int64_t last = n - kLine;
  return begin < last ? begin : last;
}

// The tiles of one block of the grid, in a row, in equal numbers. In
// AddAndList, which is limited by memory, blocks take the next free tile
// instead, so that none waits for a slower one.
template <typename T, int kMost>
struct Span {
  const Group<T, kMost>& list;
  int number;
  int blocks;
  int first_tile;
  int tiles;
  std::int64_t lines;  // that all blocks sample
  UndoLog log;         // of the first tensor

  // Of a tensor of the list.
  FEDPLUG_HOST_DEVICE UndoLog LogOf(const Job<T>& job) const {
    return {log.distances + (job.shortlist - list.jobs[0].shortlist),
            log.held_back + (job.shortlisted - list.jobs[0].shortlisted)};
  }

  // The sum of element number `i` of the list.
  FEDPLUG_HOST_DEVICE T SumOf(std::int64_t i) const {
    const auto element = static_cast<std::uint32_t>(i);
    const int which = list.elements.TensorOf(element, list.tensors);
    const TopKTensor<T>& tensor = list.jobs[which].tensor;
    const std::uint32_t at = element - list.elements.first[which];
    return tensor.delta[at] + tensor.residual_in[at];
  }

  // body(job of its tensor, tile), in order
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForTiles(const Body& body) const {
    for (int t = first_tile; t < first_tile + tiles; ++t) {
      list.template With<Tile>(static_cast<std::uint32_t>(t), body);
    }
  }

  // As entries.h has it. A page ends with its tensor.
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForPages(const Job<T>&, const Body& body) const {
    const auto& first = list.tiles.first;
    int i = list.tiles.TensorOf(static_cast<std::uint32_t>(first_tile),
                                list.tensors);
    const int end = first_tile + tiles;
    for (int t = first_tile; t < end;) {
      const int next = static_cast<int>(first[i + 1]);
      int size = (next < end ? next : end) - t;
      if (size > kMostTilesOfChunk) size = kMostTilesOfChunk;
      body(list.jobs[i], Chunk{number, t - static_cast<int>(first[i]), size});
      t += size;
      if (t == next) ++i;
    }
  }
  FEDPLUG_HOST_DEVICE ChunkState Before(const Job<T>& job) const {
    return job.scope.decisions->before;
  }
};

// The tensors of a launch: a whole scope, at most kMost.
template <typename T, int kMost>
struct BandedCall {
  Group<T, kMost> list;
  NonFinitePolicy policy;
  Sample sample;
  UndoLog log;

  // REQUIRES: blocks <= kMostShares; the call stays where it is
  FEDPLUG_HOST_DEVICE Span<T, kMost> SpanOf(std::int64_t number,
                                            std::int64_t blocks) const {
    const auto tiles = static_cast<int>(list.tiles.first[list.tensors]);
    const auto of = static_cast<int>(blocks);
    const auto i = static_cast<int>(number);
    // The first ones have one more.
    const int each = tiles / of;
    const int more = tiles % of;
    return {list,
            i,
            of,
            each * i + (i < more ? i : more),
            each + (i < more ? 1 : 0),
            sample.lines,
            log};
  }
};

// REQUIRES: request.Scopes() == 1; 0 < request.count <= kMost; the workspace is
//           one for TopKWay::kBanded or kFastest
template <int kMost, typename T>
BandedCall<T, kMost> MakeBandedCall(const Request<T>& request,
                                    NonFinitePolicy policy,
                                    const Workspace& workspace,
                                    TopKReport* reports) {
  return {MakeGroups<kMost>(request, workspace, reports)[0],
          policy,
          SampleOf(SizesOf(request, 0, request.count).elements,
                   request.tensors[0].k),
          {workspace.distances, workspace.held_back}};
}

// Sums that are not finite count as zeros, which they become unless they are
// refused.
template <typename T>
struct CountSample {
  int round;

  struct Shared {
    std::uint32_t histogram[kBins];
  };

  template <typename Block, typename Span>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    using fedplug::topk::kLine;
    const std::int64_t n = span.list.elements.first[span.list.tensors];
    const Band<T> band =
        BandOf<T>(round == 0 ? AllKeys<T>(0) : job.scope.decisions->band);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      for (std::int64_t i = span.number * kThreads + thread;
           i < span.lines * kLine; i += span.blocks * kThreads) {
        const T a = NonFiniteItems().Drop(
            span.SumOf(LineAt(i / kLine, span.lines, n) + i % kLine), 0);
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

  template <typename Block, typename Span>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.decisions->band);
    ClearHistogram(block, shared.partition.histogram);
    shared.non_finite.Clear(block);
    // The first tile is given; the next is requested early.
    const std::uint32_t tiles = span.list.tiles.first[span.list.tensors];
    auto number = static_cast<std::uint32_t>(span.number);
    for (int turn = 0; number < tiles; turn = 1 - turn) {
      std::uint32_t* const next = &shared.next[turn];
      span.list.template With<Tile>(number, [&](const Job<T>& of,
                                                const Tile& tile) {
        shared.partition.Add(
            block, of, tile, band, [&](int thread, T(&sums)[kItems]) {
              if (thread == 0) {
                *next = static_cast<std::uint32_t>(span.blocks) +
                        AtomicAdd(&job.scope.state->taken, 1);
              }
              Add(of, tile, thread, span.LogOf(of), sums, shared.non_finite);
            });
        if (block.Agree([&] { return shared.non_finite.count > 0; })) {
          shared.non_finite.Publish(block, of);
          shared.non_finite.Clear(block);
        }
      });
      number = *next;
    }
    AddHistogram(block, shared.partition.histogram, job.scope.histogram);
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

// No barrier follows, because the next step walks over the same tiles. Also
// writes the report.
template <typename T>
struct Settle {
  NonFinitePolicy policy;

  struct Shared {};

  template <typename Block, typename Span>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared&) const {
    const bool refused = IsRefused(job, policy);
    span.ForPages(job, [&](const Job<T>& of, const Chunk& chunk) {
      if (chunk.BeginsTensor()) WriteReport(block, of);
      if (!refused) WriteHeldBack(block, of, chunk, span.LogOf(of));
    });
    if (!refused) return;
    span.ForTiles([&](const Job<T>& of, const Tile& tile) {
      if (IsLogged(of.tensor, policy)) {
        Undo(block, of, tile, span.LogOf(of));
      } else {
        CopyResidual(block, of.tensor, tile.begin, tile.size);
      }
    });
  }
};

template <typename T>
struct ListAgain {
  using Shared = Partition<T>;

  template <typename Block, typename Span>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.decisions->band);
    ClearHistogram(block, shared.histogram);
    span.ForTiles([&](const Job<T>& of, const Tile& tile) {
      shared.Add(block, of, tile, band, [&](int thread, T(&sums)[kItems]) {
        LoadItems(of.tensor.residual_out, tile.begin + thread,
                  tile.size - thread, sums);
      });
    });
    AddHistogram(block, shared.histogram, job.scope.histogram);
  }
};

template <typename T>
struct RefineBand {
  using Shared = EntryCounts<ChunkEntries>;

  template <typename Block, typename Span>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span& span, Shared& shared) const {
    shared.Add(block, job, span, BandOf<T>(job.scope.decisions->band));
  }
};

// The order of the steps. Launcher has Each(step), which runs a step on every
// span, after all that was asked for before, Last(step), the same for a step
// that no other block waits for, and decisions(), what the block has concluded:
// all blocks come to the same.
template <typename T, int kMost, typename Launcher>
FEDPLUG_HOST_DEVICE void RunBandedSteps(const BandedCall<T, kMost>& call,
                                        Launcher& launcher) {
  const Decisions& decisions = launcher.decisions();
  for (int round = 0; round < kSampleRounds<T>; ++round) {
    launcher.Each(
        Then{CountSample<T>{round}, FindBand<T>{round, call.sample.ranks}});
  }
  launcher.Each(Then{AddAndList<T>{call.policy}, Narrow<T>{}});
  launcher.Last(Settle<T>{call.policy});
  if (IsRefused(call.list.jobs[0], call.policy)) return;
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

#endif  // FEDPLUG_CUDA_TOPK_BANDED_H_
