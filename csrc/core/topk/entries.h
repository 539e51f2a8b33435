// The output of the selected entries of one chunk.
#ifndef FEDPLUG_CORE_TOPK_ENTRIES_H_
#define FEDPLUG_CORE_TOPK_ENTRIES_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/topk/blocks.h"
#include "core/topk/chunks.h"

namespace fedplug::topk {

// The output of a chunk, filled a block at a time. The vector loops write some
// elements beyond the end: if these belong to another chunk, the block is
// staged.
template <typename T>
class EntryWriter {
 public:
  // SHAPE: values[count], indices[count]
  EntryWriter(T* values, std::int32_t* indices, std::int64_t count)
      : values_(values), indices_(indices), left_(count) {}

  // The place of the next block of at most kBlock entries.
  T* values() { return Staged() ? staged_values_.data() : values_; }
  std::int32_t* indices() {
    return Staged() ? staged_indices_.data() : indices_;
  }

  // Sets the number of entries of the block.
  void Advance(std::int64_t count) {
    if (Staged()) {
      std::copy_n(staged_values_.data(), count, values_);
      std::copy_n(staged_indices_.data(), count, indices_);
    }
    values_ += count;
    indices_ += count;
    left_ -= count;
  }

 private:
  bool Staged() const { return left_ < kBlock + kSlack; }

  T* values_;
  std::int32_t* indices_;
  std::int64_t left_;
  std::array<T, kBlock + kSlack> staged_values_;
  std::array<std::int32_t, kBlock + kSlack> staged_indices_;
};

// The list of entries of a partition by the pivot range, and the copy of its
// selected entries to the output.

// The entries of one chunk that are at range.lo and above.
// SHAPE: values[count], indices[count]
template <typename T>
struct EntryList {
  const T* values;
  const std::int32_t* indices;
  std::int64_t count;
};

// Up to this place in the list, keys just below `from` are selected too.
template <typename T>
std::int64_t EndOfTies(const EntryList<T>& list, FloatBitsOf<T> from,
                       const ChunkState& state) {
  if (state.ties == 0) return 0;
  if (state.ties == state.tied) return list.count;
  std::int64_t left = state.ties;
  std::int64_t place = 0;
  for (; left > 0; ++place)
    left -= MagnitudeKey(list.values[place]) + 1 == from;
  return place;
}

// Copies the listed entries [begin, end) with keys at `from` and above. Those
// below `hi` are removed from the residual, with prefetches, because they are
// far apart there.
template <typename T>
void Compact(const EntryList<T>& list, std::int64_t begin, std::int64_t end,
             FloatBitsOf<T> from, FloatBitsOf<T> hi,
             const BlockKernels<T>& kernels, T* residual,
             EntryWriter<T>* entries) {
  constexpr std::int64_t kAhead = 24;
  std::array<std::int32_t, kBlock + kSlack> leaving;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    CompactCursor<T> cursor{entries->values(), entries->indices(),
                            leaving.data()};
    kernels.compact(list.values + at, list.indices + at, count, from, hi,
                    &cursor);
    entries->Advance(cursor.count);
    for (std::int64_t j = 0; j < cursor.in_range + kAhead; ++j) {
      if (j < cursor.in_range) {
        __builtin_prefetch(residual + leaving[static_cast<std::size_t>(j)], 1);
      }
      if (j >= kAhead) {
        residual[leaving[static_cast<std::size_t>(j - kAhead)]] = T{};
      }
    }
  }
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_ENTRIES_H_
