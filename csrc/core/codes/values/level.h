// The arithmetic of one value of a value code (see value_code.h), for the loops
// of every SIMD level and for the steps on a GPU.
#ifndef FEDPLUG_CORE_CODES_VALUES_LEVEL_H_
#define FEDPLUG_CORE_CODES_VALUES_LEVEL_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/always_inline.h"
#include "core/base/float16.h"
#include "core/base/float_bits.h"
#include "core/base/host_device.h"
#include "core/base/philox.h"

#define FEDPLUG_VALUE_STEP FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE

namespace fedplug::value_loops {

// The type of arithmetic: double for double, float for everything else.
template <typename T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

FEDPLUG_VALUE_STEP float Wide(float x) { return x; }
FEDPLUG_VALUE_STEP double Wide(double x) { return x; }
FEDPLUG_VALUE_STEP float Wide(Half x) { return ToFloat(x); }
FEDPLUG_VALUE_STEP float Wide(BFloat16 x) { return ToFloat(x); }

FEDPLUG_VALUE_STEP std::uint16_t NearestBits(float x, Half /*format*/) {
  return ToHalf(x).bits;
}
// As ToBFloat16, except for NaN.
FEDPLUG_VALUE_STEP std::uint16_t NearestBits(float x, BFloat16 /*format*/) {
  return static_cast<std::uint16_t>(
      internal::ShiftRounded(internal::FloatBits(x), 16));
}

// The bits of the nearest number of Narrow, ties to even. Too large a number
// becomes the largest: infinity is the number after it, sign aside.
template <typename Narrow>
FEDPLUG_VALUE_STEP std::uint16_t FiniteBits(float x) {
  const std::uint16_t bits = NearestBits(x, Narrow{});
  const bool infinite = (bits & 0x7fff) == FloatTraits<Narrow>::kInfinity;
  return static_cast<std::uint16_t>(bits - infinite);
}

// The nearest number of T, ties to even. The largest one where x is larger. W
// is float or double.
//
// REQUIRES: x >= 0, or W is the type of arithmetic of T
template <typename T, typename W>
FEDPLUG_VALUE_STEP T Rounded(W x) {
  if constexpr (sizeof(T) == 2) {
    return T{FiniteBits<T>(static_cast<float>(x))};
  } else {
    constexpr T kLargest = std::numeric_limits<T>::max();
    const T rounded = static_cast<T>(x);
    return rounded > kLargest ? kLargest : rounded;
  }
}

// To nearest, ties to even, for |x| < 2^22: beyond 1.5 * 2^23 (double: 2^52)
// numbers have no fraction left.
template <typename T>
FEDPLUG_VALUE_STEP T RoundToEven(T x) {
  constexpr T kNoFraction = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
  return (x + kNoFraction) - kNoFraction;
}

// The functions from here to SignLevel are those of LevelLoops (loops.h) for
// one value.
template <typename T>
FEDPLUG_VALUE_STEP std::uint8_t NearestLevel(T x, T scale, int top) {
  const T level = RoundToEven(x / scale * static_cast<T>(top));
  return static_cast<std::uint8_t>(static_cast<int>(level) + top);
}

template <typename T>
FEDPLUG_VALUE_STEP std::uint8_t NearestMultipleLevel(T x, T per_step, int top) {
  const T whole = static_cast<T>(top);
  T level = RoundToEven(x * per_step);
  level = level > whole ? whole : level;
  level = level < -whole ? -whole : level;
  return static_cast<std::uint8_t>(static_cast<int>(level) + top);
}

template <typename T>
FEDPLUG_VALUE_STEP std::uint8_t LevelAtRandom(T x, std::uint32_t noise, T scale,
                                              int top) {
  const T exact = x / scale * static_cast<T>(top);
  const int toward_zero = static_cast<int>(exact);
  const int below = toward_zero - (exact < static_cast<T>(toward_zero));
  const T cut_off = exact - static_cast<T>(below);
  const int up = static_cast<T>(Philox::ToUniform(noise)) < cut_off;
  return static_cast<std::uint8_t>(below + up + top);
}

template <typename T>
FEDPLUG_VALUE_STEP std::uint8_t SignLevel(T x) {
  return x >= 0;
}

template <typename T>
FEDPLUG_VALUE_STEP T TimesScale(std::uint8_t level, int top, T scale) {
  return scale * (static_cast<T>(int{level} - top) / static_cast<T>(top));
}

template <typename T>
FEDPLUG_VALUE_STEP T TimesStep(std::uint8_t level, int top, T step) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  T multiple = static_cast<T>(int{level} - top) * step;
  multiple = multiple > kLargest ? kLargest : multiple;
  return multiple < -kLargest ? -kLargest : multiple;
}

// A term of a mean. `share` is 1 / n.
template <typename T>
FEDPLUG_VALUE_STEP double Share(T x, double share) {
  return static_cast<double>(std::abs(Wide(x))) * share;
}

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_VALUES_LEVEL_H_
