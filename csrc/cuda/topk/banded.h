// The selection from one tensor, or from a list: one launch, of as many blocks
// as the device runs together, which wait for each other and walk from tile to
// tile. The method is the core's, Floyd and Rivest's SELECT
// (core/topk/select.h):
//   CountSample    counts a sample of the keys, which gives a band that
//                  probably contains the k-th largest
//   AddAndList     adds, writes the sums to residual_out, and lists, tile by
//                  tile, the entries in the band or above it. Counts them by
//                  the bins of the band
//   Settle         if a sum is refused, restores every residual and ends.
//                  Otherwise writes the few sums that the log held back
//   ListAgain      if the band missed, which is rare: lists from the sums
//   RefineBand     counts the listed entries by the bins of a narrower band,
//                  until that is one key
//   CountChosen, Emit
//                  give every chosen entry its place, in the order of the
//                  tensors and their indices, and move it out of the residual
// After each step but Settle and Emit there is a barrier of all blocks of the
// scope, and every block computes the consequences of all counts itself
// (together.h), with equal results.
//
// COST:  per element, 3 * sizeof(T) bytes: AddAndList reads delta and
//        residual_in and writes residual_out. In place it writes 2 bytes of log
//        besides.
//        Per listed entry, 2 bytes of scratch, and one gather from residual_out
//        for each later step.
//        A sample of 1/16 of the elements, 2^17 at most, is read before, twice
//        where they have 8 bytes.
//        A missed band costs 2 * sizeof(T) + 2 bytes more per element. A
//        refusal costs 3 * sizeof(T), and 2 where there is a log.
//        Barriers: 5 for float, 9 for double if the band has the usual width.
//
// With a k for each tensor, the blocks are divided among the tensors
// (List::TeamOf), and every team selects for itself. All blocks first read all
// sums (CheckSums), so that no team writes before another refuses. That costs 2 * sizeof(T) bytes more per element.
#ifndef FEDPLUG_CUDA_TOPK_BANDED_H_
#define FEDPLUG_CUDA_TOPK_BANDED_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/topk/sample.h"
#include "cuda/topk/band.h"
#include "cuda/topk/entries.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"
#include "cuda/topk/lists.h"
#include "cuda/topk/sums.h"
#include "cuda/topk/together.h"
#include "cuda/topk/undo.h"

namespace fedplug::cuda::topk {

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

// The tiles of one block of a team, in a row, in equal numbers. In AddAndList,
// which is limited by memory, blocks take the next free tile instead, so that
// none waits for a slower one.
template <typename T>
struct Span {
  const List<T>& list;
  int number;
  int blocks;
  int first_tile;
  int tiles;

  FEDPLUG_HOST_DEVICE static Span Of(const List<T>& list, const Team& team) {
    const auto tiles = static_cast<int>(list.tiles);
    const auto blocks = static_cast<int>(team.blocks);
    const auto i = static_cast<int>(team.number);
    // The first ones have one more.
    const int each = tiles / blocks;
    const int more = tiles % blocks;
    return {list, i, blocks, each * i + (i < more ? i : more),
            each + (i < more ? 1 : 0)};
  }

  // body(job of its tensor, tile), in order
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForTiles(const Body& body) const {
    for (int t = first_tile; t < first_tile + tiles; ++t) {
      list.WithTile(static_cast<std::uint32_t>(t), body);
    }
  }

  // As entries.h has it. A chunk ends with its tensor.
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForChunks(const Body& body) const {
    int i =
        list.TensorOf(list.first_tile, static_cast<std::uint32_t>(first_tile));
    const int end = first_tile + tiles;
    for (int t = first_tile; t < end;) {
      const int next = static_cast<int>(list.FirstTile(i + 1));
      int size = (next < end ? next : end) - t;
      if (size > kMostTilesOfChunk) size = kMostTilesOfChunk;
      body(list.jobs[i], Chunk{t - static_cast<int>(list.FirstTile(i)), size});
      t += size;
      if (t == next) ++i;
    }
  }
};

// Sums that are not finite, which will be refused, count as zeros.
template <typename T>
struct CountSample {
  int round;

  struct Shared {
    std::uint32_t histogram[kBins];
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span<T>& span,
                                      Shared& shared) const {
    using fedplug::topk::kLine;
    const std::int64_t n = span.list.elements;
    const std::int64_t lines = job.scope.sample.lines;
    const Band<T> band =
        BandOf<T>(round == 0 ? AllKeys<T>(0) : job.scope.decisions->band);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      for (std::int64_t i = span.number * kThreads + thread; i < lines * kLine;
           i += span.blocks * kThreads) {
        const T a =
            NonFiniteItems().Drop(span.list.SumOf(static_cast<std::uint32_t>(
                                      LineAt(i / kLine, lines, n) + i % kLine)),
                                  0);
        if (band.Counts(a)) CountOne(&shared.histogram[band.Of(a)]);
      }
    });
    AddHistogram(block, shared.histogram, job.scope.histogram);
  }
};

template <typename T>
struct AddAndList {
  bool checked;  // all sums are known to be finite

  struct Shared {
    Partition<T> partition;
    NonFiniteCounts non_finite;
    std::uint32_t next[2];  // tiles of this block, in turn
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span<T>& span,
                                      Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.decisions->band);
    ClearHistogram(block, shared.partition.histogram);
    shared.non_finite.Clear(block);
    // The first tile is given. The next is requested early.
    const std::uint32_t tiles = span.list.tiles;
    auto number = static_cast<std::uint32_t>(span.number);
    for (int turn = 0; number < tiles; turn = 1 - turn) {
      std::uint32_t* const next = &shared.next[turn];
      span.list.WithTile(number, [&](const Job<T>& of, const Tile& tile) {
        shared.partition.Add(
            block, of, tile, band, [&](int thread, T(&sums)[kItems]) {
              if (thread == 0) {
                *next = static_cast<std::uint32_t>(span.blocks) +
                        AtomicAdd(&job.scope.state->taken, 1);
              }
              Add(of, tile, thread, sums, shared.non_finite);
            });
        shared.non_finite.Settle(block, of);
      });
      number = *next;
    }
    AddHistogram(block, shared.partition.histogram, job.scope.histogram);
  }

  // Adds up a thread's sums of the tile and writes them.
  FEDPLUG_HOST_DEVICE void Add(const Job<T>& job, const Tile& tile, int thread,
                               T (&sums)[kItems],
                               NonFiniteCounts& non_finite) const {
    const TopKTensor<T>& tensor = job.tensor;
    const bool logged = !checked && IsInPlace(tensor);
    const UndoNotes<T> notes = NotesOf(job);
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
    if (held_back > 0) HoldBack(job, tile, held_back);
  }
};

// No barrier follows, because the next step walks over the same tiles. Also
// writes the report.
template <typename T>
struct Settle {
  bool written;  // whether the sums are in residual_out

  struct Shared {};

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span<T>& span, Shared&) const {
    const bool refused = IsRefused(job);
    span.ForChunks([&](const Job<T>& of, const Chunk& chunk) {
      if (chunk.BeginsTensor()) WriteReport(block, of);
      if (!refused) WriteHeldBack(block, of, chunk);
    });
    if (!refused) return;
    span.ForTiles([&](const Job<T>& of, const Tile& tile) {
      if (written && IsInPlace(of.tensor)) {
        Undo(block, of, tile);
      } else {
        CopyResidual(block, of.tensor, tile.begin, tile.size);
      }
    });
  }
};

// Counts the sums that are not finite, and writes nothing else.
template <typename T>
struct CheckSums {
  using Shared = NonFiniteCounts;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>&,
                                      const Span<T>& span,
                                      Shared& shared) const {
    shared.Clear(block);
    span.ForTiles([&](const Job<T>& of, const Tile& tile) {
      block.Each([&](int thread) {
        const std::int64_t begin = tile.begin + thread;
        T sums[kItems];
        LoadSums(of.tensor, begin, tile.size - thread, sums);
        NonFiniteItems items;
        for (int item = 0; item < kItems; ++item) items.Drop(sums[item], item);
        shared.Add(items, begin, of.tensor.n);
      });
      shared.Settle(block, of);
    });
  }
};

template <typename T>
struct ListAgain {
  using Shared = Partition<T>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span<T>& span,
                                      Shared& shared) const {
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
  using Shared = EntryCounts;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Span<T>& span,
                                      Shared& shared) const {
    shared.Add(block, job, span, BandOf<T>(job.scope.decisions->band));
  }
};

// The order of the steps for one scope. Launcher has Each(step), which runs a
// step on every span of the scope, after all that was asked for before,
// Last(step), the same for a step that no other block waits for, and
// decisions(), the block's conclusions, which are those of all blocks. `checked`
// says that all sums are known to be finite.
template <typename T, typename Launcher>
FEDPLUG_HOST_DEVICE void RunBandedSteps(const Job<T>& job, bool checked,
                                        Launcher& launcher) {
  const Decisions& decisions = launcher.decisions();
  for (int round = 0; round < kSampleRounds<T>; ++round) {
    launcher.Each(Then{CountSample<T>{round},
                       FindBand<T>{round, job.scope.sample.ranks}});
  }
  launcher.Each(Then{AddAndList<T>{checked}, Narrow<T>{}});
  launcher.Last(Settle<T>{/*written=*/true});
  if (IsRefused(job)) return;
  while (decisions.lists_again != 0) {
    launcher.Each(Then{ListAgain<T>{}, Narrow<T>{}});
  }
  while (decisions.band.bits > 0) {
    launcher.Each(Then{RefineBand<T>{}, Narrow<T>{}});
  }
  launcher.Each(Then{CountChosen<T>{}, SumBefore<T>{}});
  launcher.Last(Emit<T>{});
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_BANDED_H_
