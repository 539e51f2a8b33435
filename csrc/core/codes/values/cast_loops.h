// The inner loops of the casts between float and 16 bits, which also find
// values that are not finite. As in loops.h, each is compiled for every SIMD
// level, with equal results.
#ifndef FEDPLUG_CORE_CODES_VALUES_CAST_LOOPS_H_
#define FEDPLUG_CORE_CODES_VALUES_CAST_LOOPS_H_

#include <cstdint>

#include "core/base/float16.h"
#include "core/simd/level.h"

namespace fedplug::value_loops {

// Both return the largest key (see float_bits.h) of the floats. The 16-bit
// numbers are little-endian bytes, which need not be aligned.
struct CastLoops {
  // To nearest, ties to even. Numbers too large become the largest number, and
  // NaN is unspecified.
  // SHAPE: x[n], data[2 * n]
  std::uint32_t (*narrow)(const float* x, std::int64_t n, std::uint8_t* data);
  std::uint32_t (*widen)(const std::uint8_t* data, std::int64_t n, float* x);
};

// Narrow is Half or BFloat16. REQUIRES: IsSupported(level)
template <typename Narrow>
CastLoops CastLoopsFor(SimdLevel level);

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_VALUES_CAST_LOOPS_H_
