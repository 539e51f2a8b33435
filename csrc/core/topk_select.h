// The selection over a whole update, from two moves over its chunks:
//   survey  looks only: counts what is above the band, collects the keys in it
//   split   writes the residual and takes out what is above a bound
// Where nothing must be taken back, one split by the band does both, and a
// short finish settles the band (`SplitFirst`). Elsewhere a survey finds the
// exact cut, and a split by that cut puts every entry straight into its place
// (`SurveyFirst`). A band that missed is detected by the counts; what was
// written is then made whole (the residual holds the sums), and a histogram of
// all keys gives a band that cannot miss.
#ifndef FEDPLUG_CORE_TOPK_SELECT_H_
#define FEDPLUG_CORE_TOPK_SELECT_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/float_environment.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "core/tiles.h"
#include "core/topk_band.h"
#include "core/topk_entries.h"
#include "core/topk_residual.h"

namespace fedplug::topk {

// Below this many elements a second thread takes longer to wake than to work.
inline constexpr std::int64_t kOneThread = 1 << 20;

// From k = n / kDense on, most vectors have an entry.
inline constexpr std::int64_t kDense = 20;

template <typename T>
class Selection {
 public:
  // REQUIRES: k >= 0; what `updates` points to outlives the object
  Selection(std::vector<Update<T>> updates, std::int64_t k,
            NonFinitePolicy policy, SimdLevel level, Parallel& parallel)
      : updates_(std::move(updates)),
        chunks_(CutIntoChunks(updates_)),
        policy_(policy),
        kernels_(BlockKernelsFor<T>(level)),
        parallel_(parallel) {
    std::int64_t room = 0;
    for (const Chunk& chunk : chunks_) {
      states_.push_back({chunk, room});
      room += chunk.end - chunk.begin + kSlack;
      n_ += chunk.end - chunk.begin;
    }
    room_ = room;
    k_ = std::min(k, n_);
  }

  // False when a sum is not finite and the policy is kError: every residual_in
  // then is as it was, and a residual_out elsewhere is of no use.
  bool Run(T* values, std::int32_t* indices) {
    Band<T> band = FirstBand();
    if (MayWriteAtOnce(band)) {
      SplitAll(band);
      if (dropped_ > 0 && policy_ == NonFinitePolicy::kError) return false;
      if (FindCut(band)) {
        FinishSplit(band, values, indices);
        return true;
      }
      RestoreSums();
      band = ExactBand(updates_, chunks_, k_, parallel_);
    }
    do {
      if (!SurveyAll(band)) return false;
      if (FindCut(band)) break;
      band = ExactBand(updates_, chunks_, k_, parallel_);
    } while (true);
    Commit(values, indices);
    return true;
  }

  // Of the sums, how many were replaced by zero.
  std::int64_t dropped() const { return dropped_; }

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

  struct ChunkState {
    Chunk chunk;
    std::int64_t room;       // where scratch for it and those behind it begins
    std::int64_t start = 0;  // where its list begins
    std::int64_t band_start = 0;  // where its keys in the band begin
    std::int64_t above = 0;       // keys at band.hi and above
    std::int64_t in_band = 0;     // keys in the band
    std::int64_t at_edge = 0;     // keys equal to band.edge
    std::int64_t listed = 0;      // entries a split left in the scratch
    std::int64_t dropped = 0;
    std::int64_t chosen = 0;       // entries that leave
    std::int64_t ties = 0;         // of them, those equal to from_ - 1
    std::int64_t tied = 0;         // of all, those equal to from_ - 1
    std::int64_t first_entry = 0;  // where its entries begin in the output
  };

  // Calls body(first, last) for runs of neighbouring chunks: a run is one task.
  // There are more of them than threads, so that no thread waits long.
  template <typename Body>
  void ForEachRun(const Body& body) {
    constexpr int kRunsPerThread = 4;
    Serial serial;
    Parallel& threads = n_ < kOneThread ? serial : parallel_;
    const auto all = static_cast<std::int64_t>(states_.size());
    const int most =
        threads.MaxThreads() == 1 ? 1 : kRunsPerThread * threads.MaxThreads();
    const auto runs = static_cast<int>(std::min<std::int64_t>(all, most));
    threads.Run(runs, [&](int r) {
      const DefaultFloatEnvironment environment;
      const Range mine = TileOf(all, runs, r);
      body(states_.data() + mine.begin, states_.data() + mine.end);
    });
  }

  // Calls body(state) for every chunk.
  template <typename Body>
  void ForEachChunk(const Body& body) {
    ForEachRun([&](ChunkState* first, ChunkState* last) {
      std::for_each(first, last, body);
    });
  }

  const Update<T>& UpdateOf(const ChunkState& state) const {
    return updates_[state.chunk.tensor];
  }

  Band<T> FirstBand() {
    if (k_ == 0) return {kInfinity, kInfinity};
    if (k_ == n_) return {0, 0};
    if (n_ <= kSampleNothing) return {0, kInfinity};
    const DefaultFloatEnvironment environment;
    const std::int64_t lines = SampleLines(n_, k_);
    const std::int64_t most = lines * kLine;
    Bits* const keys = scratch_->keys.template Reserve<Bits>(2 * most);
    const std::int64_t count = SampleKeys(updates_, chunks_, n_, lines, keys);
    return BandFromSample<T>(keys, count, k_, n_, keys + most);
  }

  // A split by the band writes each entry twice; with many of them, looking
  // first is cheaper. Ties at an edge of the band need to be counted first.
  bool MayWriteAtOnce(const Band<T>& band) const {
    if (band.lo == 0 || band.edge != Band<T>::kNoEdge || k_ > n_ / 5) {
      return false;
    }
    if (policy_ == NonFinitePolicy::kDrop) return true;
    return std::all_of(updates_.begin(), updates_.end(),
                       [](const Update<T>& update) {
                         return update.residual_in != update.residual_out &&
                                !update.delta->TakeWrites();
                       });
  }

  void CountDropped() {
    for (ChunkState& state : states_)
      dropped_ += std::exchange(state.dropped, 0);
  }

  // ---- survey

  // False when it met a sum that is not finite under kError.
  bool SurveyAll(const Band<T>& band) {
    band_keys_ = scratch_->keys.template Reserve<Bits>(room_);
    std::atomic<bool> refused{false};
    ForEachRun([&](ChunkState* first, ChunkState* last) {
      std::int64_t band_start = first->room;
      for (ChunkState* state = first; state != last; ++state) {
        if (refused.load(std::memory_order_relaxed)) return;
        if (!SurveyChunk(band, band_keys_ + band_start, state)) refused = true;
        state->band_start = band_start;
        band_start += state->in_band;
      }
    });
    return !refused;
  }

  bool SurveyChunk(const Band<T>& band, Bits* keys, ChunkState* state) const {
    const Update<T>& update = UpdateOf(*state);
    std::array<T, kBlock> staging;
    SurveyCursor<T> cursor{keys};
    state->dropped = 0;
    bool finite = true;
    ForEachBlock(state->chunk.begin, state->chunk.end,
                 [&](std::int64_t begin, std::int64_t count) {
                   const T* const delta =
                       update.delta->Read(begin, count, staging.data());
                   const T* const residual = update.residual_in + begin;
                   const SurveyCursor<T> before = cursor;
                   if (!finite || kernels_.survey(delta, residual, count, band,
                                                  &cursor) < kInfinity) {
                     return;
                   }
                   if (policy_ == NonFinitePolicy::kError) {
                     finite = false;
                     return;
                   }
                   cursor = before;
                   for (std::int64_t i = 0; i < count; ++i) {
                     const T a = delta[i] + residual[i];
                     state->dropped += !IsFinite(a);
                     staging[static_cast<std::size_t>(i)] =
                         IsFinite(a) ? a : T{};
                   }
                   kernels_.survey(staging.data(), MinusZeros<T>(), count, band,
                                   &cursor);
                 });
    state->above = cursor.above;
    state->in_band = cursor.in_band;
    state->at_edge = cursor.at_edge;
    return finite;
  }

  // ---- split

  // Splits [begin, end) of a chunk by `band`. The entries of each block go
  // behind those of the block before; `after_block` may move the cursor.
  template <typename AfterBlock>
  void SplitRange(const Band<T>& band, std::int64_t begin, std::int64_t end,
                  SplitCursor<T>* cursor, ChunkState* state,
                  const AfterBlock& after_block) const {
    const Update<T>& update = UpdateOf(*state);
    auto* const split =
        k_ < n_ / kDense ? kernels_.split_sparse : kernels_.split_dense;
    std::array<T, kBlock> staging;
    ForEachBlock(begin, end, [&](std::int64_t at, std::int64_t count) {
      const T* const delta = update.delta->Take(at, count, staging.data());
      const SplitCursor<T> before = *cursor;
      if (split(delta, update.residual_in + at, update.residual_out + at, count,
                static_cast<std::int32_t>(at), band, cursor) >= kInfinity) {
        state->dropped += DropNonFinite(update, band, before, cursor);
      }
      after_block();
    });
  }

  // Sums that are not finite were taken for large ones: the residual holds
  // nothing of them, but the entries since `before` do. Returns how many.
  static std::int64_t DropNonFinite(const Update<T>& update,
                                    const Band<T>& band,
                                    const SplitCursor<T>& before,
                                    SplitCursor<T>* cursor) {
    const std::int64_t end = cursor->count;
    *cursor = before;
    std::int64_t dropped = 0;
    for (std::int64_t j = before.count; j < end; ++j) {
      T a = cursor->values[j];
      if (!IsFinite(a)) {
        ++dropped;
        update.delta->Clear(cursor->indices[j]);
        if (band.lo > 0) continue;
        a = T{};
      }
      const Bits key = MagnitudeKey(a);
      if (key < band.hi) cursor->band_keys[cursor->in_band++] = key;
      cursor->values[cursor->count] = a;
      cursor->indices[cursor->count++] = cursor->indices[j];
    }
    return dropped;
  }

  void SplitAll(const Band<T>& band) {
    listed_values_ = scratch_->values.template Reserve<T>(room_);
    listed_indices_ = scratch_->indices.template Reserve<std::int32_t>(room_);
    band_keys_ = scratch_->keys.template Reserve<Bits>(room_);
    // One list per run, without gaps: a list scattered over many pages would
    // cost more to read back than to write.
    ForEachRun([&](ChunkState* first, ChunkState* last) {
      std::int64_t start = first->room;
      std::int64_t band_start = start;
      for (ChunkState* state = first; state != last; ++state) {
        SplitCursor<T> cursor{listed_values_ + start, listed_indices_ + start,
                              band_keys_ + band_start};
        SplitRange(band, state->chunk.begin, state->chunk.end, &cursor, state,
                   [] {});
        state->start = start;
        state->band_start = band_start;
        state->listed = cursor.count;
        state->in_band = cursor.in_band;
        state->above = cursor.count - cursor.in_band;
        start += cursor.count;
        band_start += cursor.in_band;
      }
    });
    CountDropped();
  }

  // Settles the band after SplitAll: its chosen entries leave the residual, and
  // all chosen entries go to the output, in order.
  void FinishSplit(const Band<T>& band, T* values, std::int32_t* indices) {
    ForEachChunk([&](ChunkState& state) {
      const std::int64_t end_of_ties = ListedEndOfTies(state);
      const auto below = static_cast<Bits>(from_ - 1);
      EntryWriter<T> entries(values + state.first_entry,
                             indices + state.first_entry, state.chosen);
      SiftListed(state, 0, end_of_ties, below, band.hi, &entries);
      SiftListed(state, end_of_ties, state.listed, from_, band.hi, &entries);
      ClearSource(UpdateOf(state), indices, state);
    });
  }

  // Up to this place in its list the keys just below the cut leave too.
  std::int64_t ListedEndOfTies(const ChunkState& state) const {
    if (state.ties == 0) return 0;
    if (state.ties == state.tied) return state.listed;
    const T* const listed = listed_values_ + state.start;
    std::int64_t left = state.ties;
    std::int64_t place = 0;
    for (; left > 0; ++place) left -= MagnitudeKey(listed[place]) + 1 == from_;
    return place;
  }

  // Copies those of the listed entries [begin, end) whose keys are `from` and
  // above. Those below `hi` still are in the residual, and leave it: they are
  // far apart there and seldom in the cache, so that they are asked for ahead.
  void SiftListed(const ChunkState& state, std::int64_t begin, std::int64_t end,
                  Bits from, Bits hi, EntryWriter<T>* entries) const {
    constexpr std::int64_t kAhead = 24;
    std::array<std::int32_t, kBlock + kSlack> leaving;
    T* const residual = UpdateOf(state).residual_out;
    ForEachBlock(begin, end, [&](std::int64_t at, std::int64_t count) {
      SiftCursor<T> cursor{entries->values(), entries->indices(),
                           leaving.data()};
      kernels_.sift(listed_values_ + state.start + at,
                    listed_indices_ + state.start + at, count, from, hi,
                    &cursor);
      entries->Advance(cursor.count);
      for (std::int64_t j = 0; j < cursor.in_band + kAhead; ++j) {
        if (j < cursor.in_band) {
          __builtin_prefetch(residual + leaving[static_cast<std::size_t>(j)],
                             1);
        }
        if (j >= kAhead) {
          residual[leaving[static_cast<std::size_t>(j - kAhead)]] = T{};
        }
      }
    });
  }

  // After a split by a band that missed: everything that left comes back.
  void RestoreSums() {
    ForEachChunk([&](ChunkState& state) {
      T* const residual = UpdateOf(state).residual_out;
      for (std::int64_t j = state.start; j < state.start + state.listed; ++j) {
        residual[listed_indices_[j]] = listed_values_[j];
      }
    });
    no_deltas_.reserve(updates_.size());
    for (Update<T>& update : updates_) {
      no_deltas_.emplace_back(update.delta);
      update.delta = &no_deltas_.back();
      update.residual_in = update.residual_out;
    }
  }

  // ---- the cut

  // Sets from_ and the shares of the chunks: the keys at from_ and above leave,
  // and of those just below it the first few. False when the band missed.
  bool FindCut(const Band<T>& band) {
    std::int64_t above = 0;
    std::int64_t in_band = 0;
    std::int64_t at_edge = 0;
    for (const ChunkState& state : states_) {
      above += state.above;
      in_band += state.in_band;
      at_edge += state.at_edge;
    }
    const std::int64_t wanted = k_ - above;
    if (wanted < 0 || wanted > in_band + at_edge) return false;
    std::int64_t ties = 0;
    if (wanted == 0) {
      from_ = band.hi;
    } else if (wanted > in_band) {
      from_ = band.lo;
      ties = wanted - in_band;
    } else {
      Bits* const keys = scratch_->ranked.template Reserve<Bits>(in_band);
      Bits* end = keys;
      for (const ChunkState& state : states_) {
        end = std::copy_n(band_keys_ + state.band_start, state.in_band, end);
      }
      const Ranked<Bits> last =
          FindRank(keys, in_band, wanted, band.lo, band.hi);
      from_ = static_cast<Bits>(last.key + 1);
      ties = wanted - last.above;
    }
    ShareOut(ties, wanted > in_band);
    return true;
  }

  void ShareOut(std::int64_t ties, bool edge_ties) {
    std::int64_t first_entry = 0;
    for (ChunkState& state : states_) {
      std::int64_t chosen = 0;
      std::int64_t tied = 0;
      const Bits* const keys = band_keys_ + state.band_start;
      for (std::int64_t j = 0; j < state.in_band; ++j) {
        chosen += keys[j] >= from_;
        tied += keys[j] + 1 == from_;
      }
      state.tied = edge_ties ? state.at_edge : tied;
      state.ties = std::min(ties, state.tied);
      ties -= state.ties;
      state.chosen = state.above + chosen + state.ties;
      state.first_entry = first_entry;
      first_entry += state.chosen;
    }
  }

  // Splits by the exact cut, every entry straight into its place.
  void Commit(T* values, std::int32_t* indices) {
    ForEachChunk([&](ChunkState& state) {
      const Chunk& chunk = state.chunk;
      const std::int64_t boundary = EndOfTies(state);
      std::array<Bits, kSlack> no_band;
      EntryWriter<T> entries(values + state.first_entry,
                             indices + state.first_entry, state.chosen);
      SplitCursor<T> cursor{entries.values(), entries.indices(),
                            no_band.data()};
      const auto flush = [&] {
        entries.Advance(cursor.count);
        cursor = {entries.values(), entries.indices(), no_band.data()};
      };
      const auto below = static_cast<Bits>(from_ - 1);
      state.dropped = 0;
      SplitRange({below, below}, chunk.begin, boundary, &cursor, &state, flush);
      SplitRange({from_, from_}, boundary, chunk.end, &cursor, &state, flush);
      ClearSource(UpdateOf(state), indices, state);
    });
    CountDropped();
  }

  // Up to here the keys just below the cut leave too.
  std::int64_t EndOfTies(const ChunkState& state) const {
    if (state.ties == 0) return state.chunk.begin;
    if (state.ties == state.tied) return state.chunk.end;
    std::int64_t left = state.ties;
    std::int64_t end_of_ties = state.chunk.end;
    ForEachKey(UpdateOf(state), state.chunk, [&](std::int64_t index, Bits key) {
      if (key + 1 == from_ && left-- == 1) end_of_ties = index + 1;
    });
    return end_of_ties;
  }

  static void ClearSource(const Update<T>& update, const std::int32_t* indices,
                          const ChunkState& state) {
    if (!update.delta->TakeWrites()) return;
    for (std::int64_t j = 0; j < state.chosen; ++j) {
      update.delta->Clear(indices[state.first_entry + j]);
    }
  }

  std::vector<Update<T>> updates_;
  const std::vector<Chunk> chunks_;
  const NonFinitePolicy policy_;
  const BlockKernels<T> kernels_;
  Parallel& parallel_;
  const ScratchLease scratch_;
  std::vector<ChunkState> states_;
  std::int64_t room_ = 0;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;

  T* listed_values_ = nullptr;  // what SplitAll left, by chunk
  std::int32_t* listed_indices_ = nullptr;
  Bits* band_keys_ = nullptr;  // the keys in the band, by chunk
  Bits from_ = 0;
  std::vector<NoDelta<T>> no_deltas_;  // once the residual holds the sums
  std::int64_t dropped_ = 0;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SELECT_H_
