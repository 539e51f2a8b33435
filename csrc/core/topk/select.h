// Exact top-k selection over a whole update: Floyd and Rivest's SELECT
// ("Expected time bounds for selection", CACM 18(3), 1975: sample, bracket,
// verify), fused with the error-feedback update. It is made of two passes over
// the chunks:
//   CountPass      only reads: counts the keys above a pivot range, collects
//                  those in it
//   PartitionPass  writes the residual and takes out the sums above a bound
// If nothing has to be undone, one partition by the pivot range does both, and
// a short finish settles the range. Otherwise a count finds the exact
// threshold, and a partition by it puts every entry into its place. The counts
// detect a range that missed, then the sums are restored, and a histogram of
// all keys gives a range that cannot miss. The steps are in the headers named
// after them.
#ifndef FEDPLUG_CORE_TOPK_SELECT_H_
#define FEDPLUG_CORE_TOPK_SELECT_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/scratch.h"
#include "core/simd/stream.h"
#include "core/topk/chunks.h"
#include "core/topk/entries.h"
#include "core/topk/passes.h"
#include "core/topk/pivot_range.h"
#include "core/topk/threshold.h"
#include "core/topk_residual.h"

namespace fedplug::topk {

// From k = n / kDense on, most vectors have an entry.
inline constexpr std::int64_t kDense = 20;

// Above k = n / kMany, a partition by a range, which writes each entry twice,
// takes longer than a count.
inline constexpr std::int64_t kMany = 5;

// Whether the sums have been checked. If so, nothing has to be undone.
enum class Sums { kUnchecked, kFinite };

// Until when the logs of updates are kept.
enum class Undoable {
  kWhileItMayRefuse,
  kAfterwards,  // the selection is one of several, each of which may refuse all
};

template <typename T>
class Selection {
 public:
  // REQUIRES: k >= 0; the arrays of `updates` outlive the object, and so do
  //           `parallel` and `scratch`
  Selection(std::vector<Update<T>> updates, std::int64_t k, Sums sums,
            Undoable undoable, SimdLevel level, Parallel& parallel,
            const ScratchLease& scratch)
      : updates_(std::move(updates)),
        chunks_(CutIntoChunks(updates_)),
        states_(chunks_, parallel),
        n_(states_.elements()),
        k_(std::min(k, n_)),
        sums_(sums),
        undoable_(undoable),
        kernels_(BlockKernelsFor<T>(level)),
        parallel_(parallel),
        scratch_(scratch) {}

  // False if a sum is not finite: every residual_in is then unchanged, and
  // another residual_out unspecified. The residual of an update with a log is
  // unchanged after the log has been undone, also after an exception.
  bool Run(T* values, std::int32_t* indices) {
    const DefaultFloatEnvironment environment;
    const KeepAwake awake(parallel_, states_.UsefulThreads() - 1);
    PivotRange<T> range = FirstPivotRange();
    if (MayWriteAtOnce(range)) {
      if (!PartitionAll(range)) return false;
      if (Settle(range, values, indices)) return true;
      RestoreSums();
      range = ExactPivotRange(updates_, chunks_, k_, kernels_, parallel_);
    }
    do {
      if (!CountAll(range)) return false;
      if (FindThresholdIn(range)) break;
      range = ExactPivotRange(updates_, chunks_, k_, kernels_, parallel_);
    } while (true);
    if (undoable_ == Undoable::kWhileItMayRefuse) {
      for (Update<T>& update : updates_) update.log = nullptr;
    }
    Commit(values, indices);
    return true;
  }

  // SHAPE: row_splits[tensors + 1]
  void WriteRowSplits(std::int64_t* row_splits) const {
    std::fill_n(row_splits, updates_.size() + 1, 0);
    for (const ChunkState& state : states_) {
      row_splits[state.chunk.tensor + 1] += state.chosen;
    }
    for (std::size_t t = 0; t < updates_.size(); ++t) {
      row_splits[t + 1] += row_splits[t];
    }
  }

 private:
  using Bits = FloatBitsOf<T>;
  static constexpr Bits kInfinity = FloatTraits<T>::kInfinity;

  const Update<T>& UpdateOf(const ChunkState& state) const {
    return updates_[state.chunk.tensor];
  }

  PivotRange<T> FirstPivotRange() {
    if (k_ == 0) return {kInfinity, kInfinity};
    if (k_ == n_) return {0, 0};
    if (n_ <= kSampleNothing) return {0, kInfinity};
    const std::int64_t lines = SampleLines(n_, k_);
    const std::int64_t most = lines * kLine;
    Bits* const keys = scratch_->keys.template Reserve<Bits>(2 * most + kSlack);
    const std::int64_t count =
        SampleKeys(updates_, chunks_, n_, lines, kernels_, keys);
    return PivotRangeFromSample<T>(keys, count, k_, n_, kernels_, keys + most);
  }

  // Ties at an edge of the range need to be counted first.
  bool MayWriteAtOnce(const PivotRange<T>& range) const {
    if (range.lo == 0 || range.edge != PivotRange<T>::kNoEdge ||
        k_ > n_ / kMany) {
      return false;
    }
    if (sums_ == Sums::kFinite) return true;
    return std::all_of(updates_.begin(), updates_.end(),
                       [](const Update<T>& update) {
                         return update.log != nullptr ||
                                update.residual_in != update.residual_out;
                       });
  }

  typename BlockKernels<T>::Partition* PartitionKernel(
      const Update<T>& update) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    if (update.log != nullptr) {
      return k_ < n_ / kDense ? kernels_.partition_noting_sparse
                              : kernels_.partition_noting_dense;
    }
    if (n_ >= kStreamedBytes / kBytes && k_ <= n_ / kMany &&
        update.residual_in != update.residual_out) {
      return kernels_.partition_streaming;
    }
    return k_ < n_ / kDense ? kernels_.partition_sparse
                            : kernels_.partition_dense;
  }

  bool FindThresholdIn(const PivotRange<T>& range) {
    return FindThreshold<T>(range, k_, range_keys_, kernels_, &scratch_->ranked,
                            &states_, &from_);
  }

  // False if a sum is not finite.
  bool CountAll(const PivotRange<T>& range) {
    range_keys_ = scratch_->keys.template Reserve<Bits>(states_.room());
    std::atomic<bool> refused{false};
    states_.ForEachRun([&](ChunkState* first, ChunkState* last) {
      std::int64_t range_start = first->room;
      for (ChunkState* state = first; state != last; ++state) {
        if (refused.load(std::memory_order_relaxed)) return;
        if (!CountChunk(UpdateOf(*state), kernels_, range,
                        range_keys_ + range_start, state)) {
          refused = true;
        }
        state->range_start = range_start;
        range_start += state->in_range;
      }
    });
    return !refused;
  }

  // False if a sum is not finite: all entries are then restored.
  bool PartitionAll(const PivotRange<T>& range) {
    const std::int64_t room = states_.room();
    listed_values_ = scratch_->values.template Reserve<T>(room);
    listed_indices_ = scratch_->indices.template Reserve<std::int32_t>(room);
    range_keys_ = scratch_->keys.template Reserve<Bits>(room);
    std::atomic<bool> refused{false};
    // One list per run, without gaps: a list scattered over many pages would
    // cost more to read back than to write.
    states_.ForEachRun([&](ChunkState* first, ChunkState* last) {
      std::int64_t start = first->room;
      std::int64_t range_start = start;
      for (ChunkState* state = first; state != last; ++state) {
        if (refused.load(std::memory_order_relaxed)) return;
        PartitionCursor<T> cursor{listed_values_ + start,
                                  listed_indices_ + start,
                                  range_keys_ + range_start};
        if (!PartitionChunk(UpdateOf(*state), PartitionKernel(UpdateOf(*state)),
                            range, state->chunk.begin, state->chunk.end,
                            &cursor, [] {})) {
          refused = true;
        }
        state->start = start;
        state->range_start = range_start;
        state->listed = cursor.count;
        state->in_range = cursor.in_range;
        state->above = cursor.count - cursor.in_range;
        start += cursor.count;
        range_start += cursor.in_range;
      }
    });
    if (refused) {
      for (const ChunkState& state : states_) PutBack(state);
    }
    return !refused;
  }

  // Settles the range after PartitionAll: removes its selected entries from the
  // residual, and writes all selected entries to the output, in order.
  void FinishPartition(const PivotRange<T>& range, T* values,
                       std::int32_t* indices) {
    states_.ForEach([&](ChunkState& state) {
      const EntryList<T> list{listed_values_ + state.start,
                              listed_indices_ + state.start, state.listed};
      T* const residual = UpdateOf(state).residual_out;
      const std::int64_t end_of_ties = EndOfTies(list, from_, state);
      const auto below = static_cast<Bits>(from_ - 1);
      EntryWriter<T> entries(values + state.first_entry,
                             indices + state.first_entry, state.chosen);
      Compact(list, 0, end_of_ties, below, range.hi, kernels_, residual,
              &entries);
      Compact(list, end_of_ties, list.count, from_, range.hi, kernels_,
              residual, &entries);
    });
  }

  // False if the range missed. Restores the entries if there is no memory.
  bool Settle(const PivotRange<T>& range, T* values, std::int32_t* indices) {
    try {
      if (!FindThresholdIn(range)) return false;
      FinishPartition(range, values, indices);
      return true;
    } catch (...) {
      for (const ChunkState& state : states_) PutBack(state);
      throw;
    }
  }

  // Restores the entries that PartitionAll took from a chunk.
  void PutBack(const ChunkState& state) {
    T* const residual = UpdateOf(state).residual_out;
    for (std::int64_t j = state.start; j < state.start + state.listed; ++j) {
      residual[listed_indices_[j]] = listed_values_[j];
    }
  }

  // Restores all entries after a partition by a range that missed.
  void RestoreSums() {
    states_.ForEach([&](const ChunkState& state) { PutBack(state); });
    for (Update<T>& update : updates_) {
      update.log = nullptr;  // it has noted everything
      update.delta = {MinusZeros<T>(), 0};
      update.residual_in = update.residual_out;
    }
  }

  // Partitions by the exact threshold, every entry straight into its place.
  void Commit(T* values, std::int32_t* indices) {
    states_.ForEach([&](ChunkState& state) {
      const Update<T>& update = UpdateOf(state);
      const std::int64_t boundary = EndOfTiesIn(state);
      std::array<Bits, kSlack> no_keys;
      EntryWriter<T> entries(values + state.first_entry,
                             indices + state.first_entry, state.chosen);
      PartitionCursor<T> cursor{entries.values(), entries.indices(),
                                no_keys.data()};
      const auto flush = [&] {
        entries.Advance(cursor.count);
        cursor = {entries.values(), entries.indices(), no_keys.data()};
      };
      const auto below = static_cast<Bits>(from_ - 1);
      PartitionChunk(update, PartitionKernel(update), {below, below},
                     state.chunk.begin, boundary, &cursor, flush);
      PartitionChunk(update, PartitionKernel(update), {from_, from_}, boundary,
                     state.chunk.end, &cursor, flush);
    });
  }

  // REQUIRES: count <= kBlock, which even 16 bits can count
  static Bits CountEqual(const Bits* keys, std::int64_t count, Bits key) {
    Bits equal = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      equal = static_cast<Bits>(equal + (keys[i] == key));
    }
    return equal;
  }

  // Up to here the keys just below the threshold are selected too.
  std::int64_t EndOfTiesIn(const ChunkState& state) const {
    if (state.ties == 0) return state.chunk.begin;
    if (state.ties == state.tied) return state.chunk.end;
    const auto below = static_cast<Bits>(from_ - 1);
    std::int64_t left = state.ties;
    std::int64_t end_of_ties = state.chunk.end;
    ForEachBlockOfKeys(
        UpdateOf(state), state.chunk, kernels_,
        [&](std::int64_t begin, std::int64_t count, const Bits* keys) {
          if (left == 0) return;
          const auto tied =
              static_cast<std::int64_t>(CountEqual(keys, count, below));
          if (tied < left) {
            left -= tied;
            return;
          }
          end_of_ties = begin;
          for (; left > 0; ++end_of_ties) {
            left -= keys[end_of_ties - begin] == below;
          }
        });
    return end_of_ties;
  }

  std::vector<Update<T>> updates_;
  const std::vector<Chunk> chunks_;
  ChunkStates states_;
  const std::int64_t n_;
  const std::int64_t k_;
  const Sums sums_;
  const Undoable undoable_;
  const BlockKernels<T> kernels_;
  Parallel& parallel_;
  const ScratchLease& scratch_;

  T* listed_values_ = nullptr;  // those of PartitionAll, by chunk
  std::int32_t* listed_indices_ = nullptr;
  Bits* range_keys_ = nullptr;  // the keys in the range, by chunk
  Bits from_ = 0;               // the threshold
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SELECT_H_
