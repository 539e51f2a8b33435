// The pass that only reads: counts the keys above a pivot range and collects
// the keys in it.
#ifndef FEDPLUG_CORE_TOPK_COUNT_PASS_H_
#define FEDPLUG_CORE_TOPK_COUNT_PASS_H_

#include <array>
#include <cstdint>

#include "core/topk/chunks.h"

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

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_COUNT_PASS_H_
