// The steps of kBfp (see value_code.h): powers of two, one for each block.
#ifndef FEDPLUG_CORE_CODES_VALUES_BLOCK_STEP_H_
#define FEDPLUG_CORE_CODES_VALUES_BLOCK_STEP_H_

#include <cstdint>
#include <type_traits>

#include "core/base/float16.h"
#include "core/base/float_bits.h"
#include "core/base/host_device.h"

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

#endif  // FEDPLUG_CORE_CODES_VALUES_BLOCK_STEP_H_
