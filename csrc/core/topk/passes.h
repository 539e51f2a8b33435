// The pass that only reads: counts the keys above a pivot range and collects
// the keys in it.
#ifndef FEDPLUG_CORE_TOPK_PASSES_H_
#define FEDPLUG_CORE_TOPK_PASSES_H_

#include <array>
#include <cstdint>

#include "core/simd/stream.h"
#include "core/topk/chunks.h"
#include "core/topk/undo_log.h"

namespace fedplug::topk {

// Counts in `state`, and collects from `range_keys` on. A sum that is not
// finite counts as zero and in state->dropped. Without `drop` the count ends
// and returns false.
//
// SHAPE: range_keys[elements of the chunk + kSlack]
// COST:  reads 2 * sizeof(T) bytes per element
template <typename T>
bool CountChunk(const Update<T>& update, const BlockKernels<T>& kernels,
                bool drop, const PivotRange<T>& range,
                FloatBitsOf<T>* range_keys, ChunkState* state) {
  std::array<T, kBlock> staging;
  CountCursor<T> cursor{range_keys};
  state->dropped = 0;
  bool finite = true;
  const auto count_pass = [&](std::int64_t begin, std::int64_t count) {
    if (!finite) return;
    const T* const delta = update.delta->Read(begin, count, staging.data());
    const T* const residual = update.residual_in + begin;
    const CountCursor<T> before = cursor;
    if (kernels.count_pass(delta, residual, count, range, &cursor) <
        FloatTraits<T>::kInfinity) {
      return;
    }
    if (!drop) {
      finite = false;
      return;
    }
    cursor = before;
    for (std::int64_t i = 0; i < count; ++i) {
      const T a = delta[i] + residual[i];
      state->dropped += !IsFinite(a);
      staging[static_cast<std::size_t>(i)] = IsFinite(a) ? a : T{};
    }
    kernels.count_pass(staging.data(), MinusZeros<T>(), count, range, &cursor);
  };
  ForEachBlock(update, state->chunk.begin, state->chunk.end, count_pass);
  state->above = cursor.above;
  state->in_range = cursor.in_range;
  state->at_edge = cursor.at_edge;
  return finite;
}

// The pass that writes: the residual becomes the sums, with +0 for keys above a
// pivot range.

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

#endif  // FEDPLUG_CORE_TOPK_PASSES_H_
