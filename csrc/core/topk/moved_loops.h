// The partition of block_loops.h for a delta that becomes the velocity: one
// walk reads three arrays and streams two.
#ifndef FEDPLUG_CORE_TOPK_MOVED_LOOPS_H_
#define FEDPLUG_CORE_TOPK_MOVED_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "core/topk/block_loops.h"

namespace fedplug::topk {
namespace {

// As PartitionInTwoLoops, of deltas that are made in both.
template <typename V, bool kStreaming>
FEDPLUG_TARGET BitsOf<V> PartitionMovedInTwoLoops(
    const MovedDelta<typename V::Element>& delta,
    const typename V::Element* residual_in, typename V::Element* residual_out,
    std::int64_t n, std::int32_t first_index,
    const PivotRange<typename V::Element>& range,
    PartitionCursor<typename V::Element>* cursor) {
  const auto* const gradient = delta.gradient;
  const auto* const velocity = delta.velocity_in;
  auto* const velocity_out = delta.velocity_out;
  const auto momentum = delta.momentum;
  const auto lo = V::BoundOf(range.lo);
  const auto hi = V::BoundOf(range.hi);
  const auto first = V::Iota(first_index);
  PartitionCursor<typename V::Element> at = *cursor;
  auto largest = V::Broadcast(0);
  Hits<V> hits;
  std::size_t hit_count = 0;
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto moved = V::Moved(gradient + i, momentum, velocity + i);
    const auto a = V::Sum(moved, residual_in + i);
    const auto keys = V::Keys(a);
    largest = V::Max(largest, keys);
    if constexpr (kStreaming) {
      V::Stream(velocity_out + i, moved);
      V::Stream(residual_out + i, V::KeepBelow(a, keys, hi));
    } else {
      V::Store(velocity_out + i, moved);
      V::Store(residual_out + i, V::KeepBelow(a, keys, hi));
    }
    hits[hit_count] = static_cast<std::int32_t>(i);
    hit_count += V::AtLeast(keys, lo) != 0;
  }
  for (std::size_t h = 0; h < hit_count; ++h) {
    const auto moved =
        V::Moved(gradient + hits[h], momentum, velocity + hits[h]);
    const auto a = V::Sum(moved, residual_in + hits[h]);
    List<V>(a, V::Keys(a), V::Plus(first, hits[h]), lo, &at);
  }
  CollectInRange<V>(range, cursor->count, &at);
  BitsOf<V> rest = 0;
  if (i < n) {
    rest = PartitionMovedBlock<typename V::Element>(
        {gradient + i, momentum, velocity + i, velocity_out + i},
        residual_in + i, residual_out + i, n - i,
        first_index + static_cast<std::int32_t>(i), range, &at);
  }
  *cursor = at;
  return LargerOf<V>(rest, largest);
}

template <typename V>
FEDPLUG_TARGET BitsOf<V> PartitionMoved(
    const MovedDelta<typename V::Element>& delta,
    const typename V::Element* residual_in, typename V::Element* residual_out,
    std::int64_t n, std::int32_t first_index,
    const PivotRange<typename V::Element>& range,
    PartitionCursor<typename V::Element>* cursor) {
  const bool aligned =
      IsAligned<V>(residual_out) && IsAligned<V>(delta.velocity_out);
  return (aligned ? PartitionMovedInTwoLoops<V, true>
                  : PartitionMovedInTwoLoops<V, false>)(delta, residual_in,
                                                        residual_out, n,
                                                        first_index, range,
                                                        cursor);
}

}  // namespace
}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_MOVED_LOOPS_H_
