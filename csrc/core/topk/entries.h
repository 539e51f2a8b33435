// The output of the selected entries of one chunk.
#ifndef FEDPLUG_CORE_TOPK_ENTRIES_H_
#define FEDPLUG_CORE_TOPK_ENTRIES_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/topk/blocks.h"

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

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_ENTRIES_H_
