// The largest keys of groups of numbers: a bound for a rank among all of them,
// from a fraction of the keys.
#ifndef FEDPLUG_CORE_TOPK_GROUP_MAXIMA_H_
#define FEDPLUG_CORE_TOPK_GROUP_MAXIMA_H_

#include <cstdint>

#include "core/base/float_bits.h"
#include "core/simd/level.h"

namespace fedplug::topk {

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

#endif  // FEDPLUG_CORE_TOPK_GROUP_MAXIMA_H_
