// The pass that only reads: counts the keys above a pivot range and collects
// the keys in it.
#ifndef FEDPLUG_CORE_TOPK_PASSES_H_
#define FEDPLUG_CORE_TOPK_PASSES_H_

#include <cstdint>

#include "core/simd/stream.h"
#include "core/topk/chunks.h"
#include "core/topk/undo_log.h"

namespace fedplug::topk {

// Counts in `state`, and collects from `range_keys` on. False if a sum is not
// finite.
//
// SHAPE: range_keys[elements of the chunk + kSlack]
// COST:  reads 2 * sizeof(T) bytes per element
template <typename T>
bool CountChunk(const Update<T>& update, const BlockKernels<T>& kernels,
                const PivotRange<T>& range, FloatBitsOf<T>* range_keys,
                ChunkState* state) {
  CountCursor<T> cursor{range_keys};
  FloatBitsOf<T> largest = 0;
  const auto count_pass = [&](std::int64_t begin, std::int64_t count) {
    if (largest >= FloatTraits<T>::kInfinity) return;
    largest =
        kernels.count_pass(update.delta.From(begin), update.residual_in + begin,
                           count, range, &cursor);
  };
  ForEachBlock(update, state->chunk.begin, state->chunk.end, count_pass);
  state->above = cursor.above;
  state->in_range = cursor.in_range;
  state->at_edge = cursor.at_edge;
  return largest < FloatTraits<T>::kInfinity;
}

// The pass that writes: the residual becomes the sums, with +0 for keys above a
// pivot range.

// Partitions [begin, end) of a tensor by `range`. Appends the entries of each
// block. `after_block` may move the cursor. False if a sum is not finite.
//
// COST: reads 2 * sizeof(T) bytes per element and writes sizeof(T)
template <typename T, typename AfterBlock>
bool PartitionChunk(const Update<T>& update,
                    typename BlockKernels<T>::Partition* partition,
                    const PivotRange<T>& range, std::int64_t begin,
                    std::int64_t end, PartitionCursor<T>* cursor,
                    const AfterBlock& after_block) {
  bool finite = true;
  const auto partition_block = [&](std::int64_t at, std::int64_t count) {
    if (update.log != nullptr) cursor->notes = update.log->NotesFrom(at);
    const FloatBitsOf<T> largest =
        partition(update.delta.From(at), update.residual_in + at,
                  update.residual_out + at, count,
                  static_cast<std::int32_t>(at), range, cursor);
    finite = finite && largest < FloatTraits<T>::kInfinity;
    after_block();
  };
  ForEachBlock(update, begin, end, partition_block);
  FenceStreamedStores();
  return finite;
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_PASSES_H_
