// Multiplies a residual by the decay, a block at a time, in the first-level
// cache.
#ifndef FEDPLUG_CORE_TOPK_DECAY_H_
#define FEDPLUG_CORE_TOPK_DECAY_H_

#include <array>
#include <cstdint>

#include "core/simd/level.h"
#include "core/topk/blocks.h"

namespace fedplug::topk {

// Memory for the blocks of a Decay.
template <typename T>
using DecayedBlock = std::array<T, kBlock>;

// For every floating type.
template <typename T>
class Decay {
 public:
  // REQUIRES: 0 <= share <= 1, IsSupported(level)
  Decay(T share, SimdLevel level);

  // share * residual, each product rounded once: in `block`, or the residual
  // itself if the share is 1. A null residual stands for zeros.
  // SHAPE: residual[n], n <= kBlock
  const T* Of(const T* residual, std::int64_t n, DecayedBlock<T>* block) const;

 private:
  using Loop = void(const T* x, std::int64_t n, T share, T* product);

  const T share_;
  Loop* const loop_;  // null where nothing is to be multiplied
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_DECAY_H_
