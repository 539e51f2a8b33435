// Multiplies a residual by the decay, a block at a time, in the first-level
// cache.
#ifndef FEDPLUG_CORE_TOPK_CHUNK_LOOPS_H_
#define FEDPLUG_CORE_TOPK_CHUNK_LOOPS_H_

#include <array>
#include <cstdint>

#include "core/base/floats.h"
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

// The largest keys of groups of numbers: a bound for a rank among all of them,
// from a fraction of the keys.

// Number of groups side by side: element i of each of `rows` rows is in group
// i.
inline constexpr std::int64_t kGroupsAbreast = 16;

// The largest key of each group of `rows` elements, of as many whole sets of
// kGroupsAbreast groups as there are in x[n]. Returns the number of groups.
// SHAPE: x[n], maxima[n / rows]
template <typename T>
using GroupMaxima = std::int64_t(const T* x, std::int64_t n, std::int64_t rows,
                                 FloatBitsOf<T>* maxima);

// For every floating type. REQUIRES: IsSupported(level)
template <typename T>
GroupMaxima<T>* GroupMaximaFor(SimdLevel level);

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_CHUNK_LOOPS_H_
