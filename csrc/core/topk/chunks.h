// The state of a selection for each chunk, and the distribution of chunks to
// threads.
#ifndef FEDPLUG_CORE_TOPK_CHUNKS_H_
#define FEDPLUG_CORE_TOPK_CHUNKS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// Below this number of elements, waking a second thread takes longer than its
// work, even if it is woken once per call.
inline constexpr std::int64_t kOneThread = 1 << 19;

// Number of elements for which another thread is worth waking.
inline constexpr std::int64_t kSmallestShare = 1 << 18;

struct ChunkState {
  Chunk chunk;
  std::int64_t room;       // where scratch for it and those behind it begins
  std::int64_t start = 0;  // where its list begins
  std::int64_t range_start = 0;  // where its keys in the range begin
  std::int64_t above = 0;        // keys at range.hi and above
  std::int64_t in_range = 0;     // keys in the range
  std::int64_t at_edge = 0;      // keys equal to range.edge
  std::int64_t listed = 0;       // entries a partition left in the scratch
  std::int64_t chosen = 0;       // entries that leave
  std::int64_t ties = 0;         // of them, those just below the threshold
  std::int64_t tied = 0;         // of all, those just below the threshold
  std::int64_t first_entry = 0;  // where its entries begin in the output
};

// The chunks of an update. The caller has set the default floating-point
// environment on its own thread. This sets it on the others.
class ChunkStates {
 public:
  // REQUIRES: `parallel` outlives the object
  ChunkStates(const std::vector<Chunk>& chunks, Parallel& parallel)
      : parallel_(parallel) {
    states_.reserve(chunks.size());
    for (const Chunk& chunk : chunks) {
      states_.push_back({chunk, room_});
      room_ += chunk.end - chunk.begin + kSlack;
      elements_ += chunk.end - chunk.begin;
    }
  }

  std::int64_t elements() const { return elements_; }

  // The number of scratch elements of all chunks.
  std::int64_t room() const { return room_; }

  std::vector<ChunkState>::iterator begin() { return states_.begin(); }
  std::vector<ChunkState>::iterator end() { return states_.end(); }
  std::vector<ChunkState>::const_iterator begin() const {
    return states_.begin();
  }
  std::vector<ChunkState>::const_iterator end() const { return states_.end(); }

  // The number of threads worth waking.
  int UsefulThreads() const {
    if (elements_ < kOneThread) return 1;
    return TileCount(elements_, kSmallestShare, parallel_);
  }

  // Calls body(first, last) for runs of neighbouring chunks. There are more
  // runs than threads, so that no thread waits long, but only as many tasks as
  // threads, so that no more are woken.
  template <typename Body>
  void ForEachRun(const Body& body) {
    constexpr int kRunsPerThread = 8;
    if (states_.empty()) return;
    const int threads = UsefulThreads();
    if (threads == 1) {
      body(states_.data(), states_.data() + states_.size());
      return;
    }
    const auto all = static_cast<std::int64_t>(states_.size());
    const auto runs =
        static_cast<int>(std::min<std::int64_t>(all, kRunsPerThread * threads));
    std::atomic<int> next{0};
    parallel_.Run(threads, [&](int /*thread*/) {
      const DefaultFloatEnvironment environment;
      for (int run = next++; run < runs; run = next++) {
        const Range mine = TileOf(all, runs, run);
        body(states_.data() + mine.begin, states_.data() + mine.end);
      }
    });
  }

  // Calls body(state) for every chunk.
  template <typename Body>
  void ForEach(const Body& body) {
    ForEachRun([&](ChunkState* first, ChunkState* last) {
      std::for_each(first, last, body);
    });
  }

 private:
  Parallel& parallel_;
  std::vector<ChunkState> states_;
  std::int64_t room_ = 0;
  std::int64_t elements_ = 0;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_CHUNKS_H_
