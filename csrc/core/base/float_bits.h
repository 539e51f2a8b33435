// The bits of floating-point numbers. For finite numbers the order of |a| is
// the order of the bits without the sign, as unsigned integers: the key of
// every selection. It is total, and -0 ties with +0.
#ifndef FEDPLUG_CORE_BASE_FLOAT_BITS_H_
#define FEDPLUG_CORE_BASE_FLOAT_BITS_H_

#include <cstdint>
#include <cstring>

#include "core/base/float16.h"
#include "core/base/host_device.h"

namespace fedplug {

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

#endif  // FEDPLUG_CORE_BASE_FLOAT_BITS_H_
