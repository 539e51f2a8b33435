// The pass that writes: the residual becomes the sums, with +0 for keys above a
// pivot range.
#ifndef FEDPLUG_CORE_TOPK_PARTITION_PASS_H_
#define FEDPLUG_CORE_TOPK_PARTITION_PASS_H_

#include <array>
#include <cstdint>

#include "core/simd/stream.h"
#include "core/topk/chunks.h"
#include "core/topk/undo_log.h"

namespace fedplug::topk {

// Removes sums that are not finite, which were taken for large ones, from the
// entries since `before`. Returns their number.
template <typename T>
std::int64_t DropNonFinite(const PivotRange<T>& range,
                           const PartitionCursor<T>& before,
                           PartitionCursor<T>* cursor) {
  const std::int64_t end = cursor->count;
  *cursor = before;
  std::int64_t dropped = 0;
  for (std::int64_t j = before.count; j < end; ++j) {
    T a = cursor->values[j];
    if (!IsFinite(a)) {
      ++dropped;
      if (range.lo > 0) continue;
      a = T{};
    }
    const FloatBitsOf<T> key = MagnitudeKey(a);
    if (key < range.hi) cursor->range_keys[cursor->in_range++] = key;
    cursor->values[cursor->count] = a;
    cursor->indices[cursor->count++] = cursor->indices[j];
  }
  return dropped;
}

// Partitions [begin, end) of a tensor by `range`. Appends the entries of each
// block. `after_block` may move the cursor. Returns the number of dropped sums.
//
// COST: reads 2 * sizeof(T) bytes per element and writes sizeof(T)
template <typename T, typename AfterBlock>
std::int64_t PartitionChunk(const Update<T>& update,
                            typename BlockKernels<T>::Partition* partition,
                            const PivotRange<T>& range, std::int64_t begin,
                            std::int64_t end, PartitionCursor<T>* cursor,
                            const AfterBlock& after_block) {
  std::array<T, kBlock> staging;
  std::int64_t dropped = 0;
  const auto partition_block = [&](std::int64_t at, std::int64_t count) {
    const T* const residual_in = update.residual_in + at;
    T* const residual_out = update.residual_out + at;
    const PartitionCursor<T> before = *cursor;
    const T* const delta = update.delta->Read(at, count, staging.data());
    if (update.log != nullptr) cursor->notes = update.log->NotesFrom(at);
    const FloatBitsOf<T> largest =
        partition(delta, residual_in, residual_out, count,
                  static_cast<std::int32_t>(at), range, cursor);
    if (largest >= FloatTraits<T>::kInfinity) {
      dropped += DropNonFinite(range, before, cursor);
    }
    after_block();
  };
  ForEachBlock(update, begin, end, partition_block);
  FenceStreamedStores();
  return dropped;
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_PARTITION_PASS_H_
