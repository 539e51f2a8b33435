// The probability of each bit of a symbol's distance to the centre, as
// symbol_code.h specifies for kAdaptive.
#ifndef FEDPLUG_CORE_CODES_ADAPTIVE_SYMBOL_MODEL_H_
#define FEDPLUG_CORE_CODES_ADAPTIVE_SYMBOL_MODEL_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/codes/adaptive/bits.h"

namespace fedplug {

class SymbolModel {
 public:
  static constexpr int kMostClasses = 8;  // beside that of distance 0

  SymbolModel() {
    one_.fill(kCertain / 2);
    for (std::uint32_t n = 0; n < rates_.size(); ++n) {
      rates_[n] = 2 * kCertain / (2 * n + 3);
    }
  }

  // The contexts of bits: whether the class is above e, where the classes of
  // the two previous symbols add up to `before`; the sign in class e, the half
  // of the class that contains the distance, and the quarter.
  static int AboveOf(int before, int e) {
    const int near = before == 0 ? 0 : before <= 2 ? 1 : 2;
    return near * kMostClasses + e;
  }
  static int SignOf(int e) { return kSigns + e; }
  static int HalfOf(int e) { return kHalves + e; }
  static int QuarterOf(int e, int half) { return kQuarters + 2 * e + half; }

  // The probability of a 1, in parts of adaptive_bits::kScale.
  std::uint32_t ProbabilityOfOne(int context) const {
    const std::uint32_t one = one_[static_cast<std::size_t>(context)] >> 4;
    return std::min(adaptive_bits::kScale - kLeast, std::max(kLeast, one));
  }

  void Learn(int context, int bit) {
    const auto i = static_cast<std::size_t>(context);
    const std::uint32_t rate = rates_[seen_[i]];
    if (bit != 0) {
      one_[i] += (kCertain - one_[i]) * rate >> 16;
    } else {
      one_[i] -= one_[i] * rate >> 16;
    }
    if (seen_[i] + 1u < rates_.size()) ++seen_[i];
  }

 private:
  static constexpr std::uint32_t kCertain = 1u << 16;
  static constexpr std::uint32_t kLeast = 16;
  static constexpr int kSigns = 24;
  static constexpr int kHalves = 32;
  static constexpr int kQuarters = 48;
  static constexpr std::size_t kContexts = 66;

  std::array<std::uint32_t, kContexts> one_;
  std::array<std::uint8_t, kContexts> seen_{};
  std::array<std::uint32_t, 128> rates_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_ADAPTIVE_SYMBOL_MODEL_H_
