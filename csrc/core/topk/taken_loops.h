// Sums with +0 at given places, over a vector of block_loops.h.
#ifndef FEDPLUG_CORE_TOPK_TAKEN_LOOPS_H_
#define FEDPLUG_CORE_TOPK_TAKEN_LOOPS_H_

#include <cstdint>

#include "core/topk/block_loops.h"

namespace fedplug::topk {
namespace {

template <typename V, bool kStreaming>
FEDPLUG_TARGET BitsOf<V> TakeMarked(const typename V::Element* delta,
                                    const typename V::Element* residual_in,
                                    typename V::Element* residual_out,
                                    std::int64_t n,
                                    const typename V::Element* marks) {
  const auto one = V::BoundOf(1);
  auto largest = V::Broadcast(0);
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto a = V::Sum(delta + i, residual_in + i);
    largest = V::Max(largest, V::Keys(a));
    const auto rest = V::KeepBelow(a, V::Load(marks + i), one);
    if constexpr (kStreaming) {
      V::Stream(residual_out + i, rest);
    } else {
      V::Store(residual_out + i, rest);
    }
  }
  const BitsOf<V> rest =
      TakeBlock(delta + i, residual_in + i, residual_out + i, n - i, marks + i);
  return LargerOf<V>(rest, largest);
}

template <typename V>
FEDPLUG_TARGET BitsOf<V> TakeStreaming(const typename V::Element* delta,
                                       const typename V::Element* residual_in,
                                       typename V::Element* residual_out,
                                       std::int64_t n,
                                       const typename V::Element* marks) {
  return (IsAligned<V>(residual_out) ? TakeMarked<V, true>
                                     : TakeMarked<V, false>)(delta, residual_in,
                                                             residual_out, n,
                                                             marks);
}

}  // namespace
}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_TAKEN_LOOPS_H_
