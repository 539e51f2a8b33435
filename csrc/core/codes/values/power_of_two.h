// Powers of two that scale doubles exactly.
#ifndef FEDPLUG_CORE_CODES_VALUES_POWER_OF_TWO_H_
#define FEDPLUG_CORE_CODES_VALUES_POWER_OF_TWO_H_

#include <cstdint>
#include <cstring>

#include "core/base/float_bits.h"
#include "core/base/host_device.h"

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

#endif  // FEDPLUG_CORE_CODES_VALUES_POWER_OF_TWO_H_
