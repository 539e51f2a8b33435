// Floating-point numbers on the host and on devices: the 16-bit types, the bits of numbers, and the marks
// of functions that devices call or loops inline.
#ifndef FEDPLUG_CORE_BASE_FLOATS_H_
#define FEDPLUG_CORE_BASE_FLOATS_H_

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FEDPLUG_HOST_DEVICE __host__ __device__
#else
#define FEDPLUG_HOST_DEVICE
#endif

// For a loop that is compiled with the instruction set of its caller.

#define FEDPLUG_ALWAYS_INLINE inline __attribute__((always_inline))

// The two 16-bit floating types as storage: the bit layouts of IEEE 754
// binary16 and of bfloat16. Arithmetic widens to float, computes, and rounds
// once to nearest even. Rounding to float in between changes nothing: 24 bits
// are at least 2p + 2 for p = 11 and p = 8 (Figueroa, "When is double rounding
// innocuous?", SIGNUM 1995).

namespace fedplug {

struct Half {
  std::uint16_t bits;
};

struct BFloat16 {
  std::uint16_t bits;
};

namespace internal {

FEDPLUG_HOST_DEVICE inline std::uint32_t FloatBits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

FEDPLUG_HOST_DEVICE inline float FloatFromBits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// bits / 2^shift, rounded to nearest, ties to even.
FEDPLUG_HOST_DEVICE inline std::uint32_t ShiftRounded(std::uint32_t bits,
                                                      std::uint32_t shift) {
  const std::uint32_t odd = (bits >> shift) & 1;
  return (bits + (1u << (shift - 1)) - 1 + odd) >> shift;
}

}  // namespace internal

FEDPLUG_HOST_DEVICE inline float ToFloat(Half value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude < 0x0400u) {  // zero and denormals, multiples of 2^-24
    const float scaled = static_cast<float>(magnitude) * 0x1p-24f;
    return internal::FloatFromBits(sign | internal::FloatBits(scaled));
  }
  const std::uint32_t rebias = magnitude < 0x7c00u ? 112u << 23 : 224u << 23;
  return internal::FloatFromBits(sign | ((magnitude << 13) + rebias));
}

FEDPLUG_HOST_DEVICE inline Half ToHalf(float value) {
  const std::uint32_t bits = internal::FloatBits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // a quiet NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {
    half = internal::ShiftRounded(magnitude - (112u << 23), 13);
  } else if (magnitude >= 0x33000000u) {  // 2^-25 up to 2^-14: a denormal
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    half = internal::ShiftRounded(significand, 126u - (magnitude >> 23));
  } else {
    half = 0;
  }
  return Half{static_cast<std::uint16_t>(sign | half)};
}

FEDPLUG_HOST_DEVICE inline float ToFloat(BFloat16 value) {
  return internal::FloatFromBits(static_cast<std::uint32_t>(value.bits) << 16);
}

FEDPLUG_HOST_DEVICE inline BFloat16 ToBFloat16(float value) {
  const std::uint32_t bits = internal::FloatBits(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = nan ? ((bits >> 16) & 0x8000u) | 0x7fc0u
                                    : internal::ShiftRounded(bits, 16);
  return BFloat16{static_cast<std::uint16_t>(rounded)};
}

FEDPLUG_HOST_DEVICE inline Half operator+(Half a, Half b) {
  return ToHalf(ToFloat(a) + ToFloat(b));
}

FEDPLUG_HOST_DEVICE inline Half operator*(Half a, Half b) {
  return ToHalf(ToFloat(a) * ToFloat(b));
}

FEDPLUG_HOST_DEVICE inline BFloat16 operator+(BFloat16 a, BFloat16 b) {
  return ToBFloat16(ToFloat(a) + ToFloat(b));
}

FEDPLUG_HOST_DEVICE inline BFloat16 operator*(BFloat16 a, BFloat16 b) {
  return ToBFloat16(ToFloat(a) * ToFloat(b));
}

// The bits of floating-point numbers. For finite numbers the order of |a| is
// the order of the bits without the sign, as unsigned integers: the key of
// every selection. It is total, and -0 ties with +0.

// Bits: the unsigned integer of T's width. kInfinity: the bits of +infinity.
template <typename T>
struct FloatTraits;

template <>
struct FloatTraits<float> {
  using Bits = std::uint32_t;
  static constexpr Bits kInfinity = 0x7f800000u;
};

template <>
struct FloatTraits<double> {
  using Bits = std::uint64_t;
  static constexpr Bits kInfinity = 0x7ff0000000000000u;
};

template <>
struct FloatTraits<Half> {
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7c00u;
};

template <>
struct FloatTraits<BFloat16> {
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7f80u;
};

template <typename T>
using FloatBitsOf = typename FloatTraits<T>::Bits;

// The width of a key: every bit but the sign.
template <typename T>
inline constexpr int kKeyBits = 8 * static_cast<int>(sizeof(T)) - 1;

template <typename T>
FEDPLUG_HOST_DEVICE FloatBitsOf<T> ToBits(T value) {
  static_assert(sizeof(FloatBitsOf<T>) == sizeof(T));
  FloatBitsOf<T> bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <typename T>
FEDPLUG_HOST_DEVICE FloatBitsOf<T> MagnitudeKey(T value) {
  constexpr auto kMask =
      static_cast<FloatBitsOf<T>>((FloatBitsOf<T>{1} << kKeyBits<T>)-1);
  return static_cast<FloatBitsOf<T>>(ToBits(value) & kMask);
}

template <typename T>
FEDPLUG_HOST_DEVICE bool IsFinite(T value) {
  return MagnitudeKey(value) < FloatTraits<T>::kInfinity;
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_FLOATS_H_
