// One level, scale or block of the value codes, on the host and on devices.
#ifndef FEDPLUG_CORE_CODES_VALUES_LEVEL_H_
#define FEDPLUG_CORE_CODES_VALUES_LEVEL_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/floats.h"
#include "core/base/philox.h"

namespace fedplug {

// 2^power, for the powers of normal numbers.
FEDPLUG_HOST_DEVICE inline double PowerOfTwo(int power) {
  const std::uint64_t bits = static_cast<std::uint64_t>(power + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The power that scales a magnitude to [1, 2). The largest ones to [2, 4), so
// that the inverse is a normal number, and denormal ones below 1.
FEDPLUG_HOST_DEVICE inline int PowerOfScale(double largest) {
  const auto exponent = static_cast<int>(ToBits(largest) >> 52) - 1023;
  return exponent < -1022 ? 1022 : (exponent > 1022 ? -1022 : -exponent);
}

FEDPLUG_HOST_DEVICE inline double ScaleOf(double largest) {
  return PowerOfTwo(PowerOfScale(largest));
}

}  // namespace fedplug

// The arithmetic of one value of a value code (see value_code.h), for the loops
// of every SIMD level and for the steps on a GPU.

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

// The steps of kBfp (see value_code.h): powers of two, one for each block.

namespace fedplug {

// The range of exponents of steps. Half of the smallest step is a normal
// number, and its multiples are numbers of T.
template <typename T>
struct StepExponents {
  static constexpr int kLowest = std::is_same_v<T, double> ? -1021
                                 : std::is_same_v<T, Half> ? -24
                                                           : -125;
  static constexpr int kHighest = std::is_same_v<T, double> ? 1023
                                  : std::is_same_v<T, Half> ? 15
                                                            : 127;
};

// The smallest e for which largest <= (2^(bits - 1) - 1/2) * 2^e, clamped to
// the range.
//
// REQUIRES: 0 <= largest, finite
template <typename T>
FEDPLUG_HOST_DEVICE int StepExponentOf(double largest, int bits) {
  constexpr int kSignificandBits = 52;
  const std::uint64_t key = ToBits(largest);
  const auto exponent = static_cast<int>(key >> kSignificandBits) - 1023;
  const std::uint64_t digits = key & ((std::uint64_t{1} << 52) - 1);
  // 2^(bits - 1) - 1/2 is `bits` ones, of which the last is worth 1/2.
  const std::uint64_t ones = ((std::uint64_t{1} << (bits - 1)) - 1)
                             << (kSignificandBits - (bits - 1));
  const int least = exponent - (bits - 2) + (digits > ones ? 1 : 0);
  constexpr int kLowest = StepExponents<T>::kLowest;
  constexpr int kHighest = StepExponents<T>::kHighest;
  return least < kLowest ? kLowest : least > kHighest ? kHighest : least;
}

}  // namespace fedplug

// Packs a few levels, which lie in the bytes of a word, the first in the lowest
// byte.

namespace fedplug::value_loops {

// Makes of eight levels of `bits` bits, 2 to 8, the lowest `bits` bytes of each
// word: neighbours are moved together, first pairs, then pairs of pairs.
//
// REQUIRES: Words is std::uint64_t or a vector of it
template <typename Words>
FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE void PushEachTogether(int bits,
                                                                Words* words) {
  Words x = *words;
  x = (x & 0x00ff00ff00ff00ffu) | ((x & 0xff00ff00ff00ff00u) >> (8 - bits));
  x = (x & 0x0000ffff0000ffffu) |
      ((x & 0xffff0000ffff0000u) >> (16 - 2 * bits));
  *words = (x & 0x00000000ffffffffu) |
           ((x & 0xffffffff00000000u) >> (32 - 4 * bits));
}

FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE std::uint64_t PushTogether(
    std::uint64_t word, int bits) {
  PushEachTogether(bits, &word);
  return word;
}

// The lowest bits of eight bytes in one: the product moves byte i's to place
// 56 + i, and no two meet.
FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE std::uint8_t PushBitsTogether(
    std::uint64_t x) {
  return static_cast<std::uint8_t>((x * 0x0102040810204080u) >> 56);
}

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_VALUES_LEVEL_H_
