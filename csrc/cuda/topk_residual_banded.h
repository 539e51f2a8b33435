// The selection from one tensor that is too large to stay in shared memory: one
// launch, of as many blocks as the device runs together, which wait for each
// other and go on from tile to tile. The method is the core's, Floyd and
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
// Behind each but Settle and Emit is a barrier of the whole grid, and its
// last block does what follows from all counts. All blocks see the same state
// there, and so take the same way. COST, per element: AddAndList reads delta
// and residual_in and writes residual_out, 3 * sizeof(T) bytes; under kError in
// place it writes 2 bytes of log besides. Per listed entry, 2 bytes of scratch
// and one gather from residual_out for each later step. Before, a sample of
// 1/16 of the elements, 2^17 at most, is read, twice where they have 8 bytes. A
// band that missed costs 2 * sizeof(T) + 2 bytes an element more; a refusal,
// 3 * sizeof(T), and 2 where there is a log. 1 launch; barriers of the grid,
// where the band is no wider than usual: 3 for 16 bits, 4 for float, 8 for
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

// What one block of the grid takes: from its number on, every `blocks`-th tile
// or chunk.
struct Stride {
  int number;
  int blocks;
  std::int64_t lines;  // that are sampled
  UndoLog log;

  FEDPLUG_HOST_DEVICE std::uint32_t CountIn(const Scope&) const {
    return static_cast<std::uint32_t>(blocks);
  }

  // body(tile), in order. Tiles are shared out more evenly than chunks.
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForTiles(std::int64_t n, const Body& body) const {
    const auto tiles = static_cast<int>(TilesOf(n));
    for (int t = number; t < tiles; t += blocks) {
      body(Tile::At(t, n));
    }
  }

  // body(chunk), in order
  template <typename Body>
  FEDPLUG_HOST_DEVICE void ForChunks(std::int64_t n, const Body& body) const {
    const auto chunks = static_cast<int>(ChunksOf(n));
    for (int c = number; c < chunks; c += blocks) {
      body(Chunk::At(c, n));
    }
  }
};

// What a launch is for: the only tensor of a request.
template <typename T>
struct BandedCall {
  Job<T> job;
  NonFinitePolicy policy;
  Sample sample;
  UndoLog log;

  FEDPLUG_HOST_DEVICE Stride StrideOf(std::int64_t number,
                                      std::int64_t blocks) const {
    return {static_cast<int>(number), static_cast<int>(blocks), sample.lines,
            log};
  }
};

// REQUIRES: request.count == 1; the workspace is one for TopKWay::kBanded
template <typename T>
BandedCall<T> MakeBandedCall(const Request<T>& request, NonFinitePolicy policy,
                             const Workspace& workspace, TopKReport* reports) {
  const TopKTensor<T>& tensor = request.tensors[0];
  return {MakeGroups<1>(request, workspace, reports)[0].jobs[0],
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
                                      const Stride& stride,
                                      Shared& shared) const {
    using fedplug::topk::kLine;
    const TopKTensor<T>& tensor = job.tensor;
    const Band<T> band =
        BandOf<T>(round == 0 ? AllKeys<T>(0) : job.scope.state->band);
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      for (std::int64_t i = stride.number * kThreads + thread;
           i < stride.lines * kLine; i += stride.blocks * kThreads) {
        const std::int64_t at =
            LineAt(i / kLine, stride.lines, tensor.n) + i % kLine;
        const T a =
            NonFiniteItems().Drop(tensor.delta[at] + tensor.residual_in[at], 0);
        if (band.Counts(a)) CountOne(&shared.histogram[band.Of(a)]);
      }
    });
    AddHistogram(block, shared.histogram, job.scope.state->histogram);
  }
};

template <typename T>
struct AddAndList {
  NonFinitePolicy policy;

  struct Shared {
    Partition<T> partition;
    NonFiniteCounts non_finite;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Stride& stride,
                                      Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.state->band);
    ClearHistogram(block, shared.partition.histogram);
    shared.non_finite.Clear(block);
    stride.ForTiles(job.tensor.n, [&](const Tile& tile) {
      shared.partition.Add(
          block, job, tile, band, [&](int thread, T(&sums)[kItems]) {
            Add(job, tile, thread, stride.log, sums, shared.non_finite);
          });
    });
    AddHistogram(block, shared.partition.histogram, job.scope.state->histogram);
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

// Who walks over a chunk later has written what was held back of it: so nobody
// waits for the others here. Also writes the report.
template <typename T>
struct Settle {
  NonFinitePolicy policy;

  struct Shared {};

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Stride& stride, Shared&) const {
    if (stride.number == 0) WriteReport(block, job);
    if (!IsRefused(job, policy)) {
      stride.ForChunks(job.tensor.n, [&](const Chunk& chunk) {
        WriteHeldBack(block, job, chunk, stride.log);
      });
      return;
    }
    stride.ForTiles(job.tensor.n, [&](const Tile& tile) {
      if (IsLogged(job.tensor, policy)) {
        Undo(block, job, tile, stride.log);
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
                                      const Stride& stride,
                                      Shared& shared) const {
    const Band<T> band = BandOf<T>(job.scope.state->band);
    const TopKTensor<T>& tensor = job.tensor;
    ClearHistogram(block, shared.histogram);
    stride.ForChunks(tensor.n, [&](const Chunk& chunk) {
      for (int t = 0; t < chunk.tiles; ++t) {
        const Tile tile = Tile::At(chunk.first_tile + t, tensor.n);
        shared.Add(block, job, tile, band, [&](int thread, T(&sums)[kItems]) {
          LoadItems(tensor.residual_out, tile.begin + thread,
                    tile.size - thread, sums);
        });
      }
    });
    AddHistogram(block, shared.histogram, job.scope.state->histogram);
  }
};

template <typename T>
struct RefineBand {
  using Shared = EntryCounts<ChunkEntries>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Chunk& chunk,
                                      Shared& shared) const {
    shared.Add(block, job, chunk, BandOf<T>(job.scope.state->band));
  }
};

// A step on every chunk that a block takes.
template <typename Step>
struct ForChunks {
  Step step;

  using Shared = typename Step::Shared;

  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Stride& stride,
                                      Shared& shared) const {
    stride.ForChunks(job.tensor.n, [&](const Chunk& chunk) {
      step(block, job, chunk, shared);
    });
  }
};
template <typename Step>
ForChunks(Step) -> ForChunks<Step>;

// The order of the steps. Launcher has Each(step), which runs a step on every
// stride, after all that was asked for before, Last(step), the same for a step
// that no other block waits for, and Agree(decide), as a block has it: a state
// that the next step changes must have been read by all threads of a block
// before that block arrives, which it may without a barrier where it has no
// chunk.
template <typename T, typename Launcher>
FEDPLUG_HOST_DEVICE void RunBandedSteps(const BandedCall<T>& call,
                                        Launcher& launcher) {
  const Job<T>& job = call.job;
  const ScopeState& state = *job.scope.state;
  for (int round = 0; round < kSampleRounds<T>; ++round) {
    launcher.Each(
        Then{CountSample<T>{round}, FindBand<T>{round, call.sample.ranks}});
  }
  launcher.Each(Then{AddAndList<T>{call.policy}, Narrow<T>{}});
  launcher.Last(Settle<T>{call.policy});
  if (IsRefused(job, call.policy)) return;
  while (launcher.Agree([&] { return state.lists_again != 0; })) {
    launcher.Each(Then{ListAgain<T>{}, Narrow<T>{}});
  }
  while (launcher.Agree([&] { return state.band.bits > 0; })) {
    launcher.Each(Then{ForChunks{RefineBand<T>{}}, Narrow<T>{}});
  }
  launcher.Each(Then{ForChunks{CountChosen<T, ChunkEntries>{}}, ScanChunks{}});
  launcher.Last(ForChunks{Emit<T, ChunkEntries>{}});
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_BANDED_H_
