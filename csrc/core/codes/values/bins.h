// The bin of a value in a codebook, for the CPU and for GPUs.
#ifndef FEDPLUG_CORE_CODES_VALUES_BINS_H_
#define FEDPLUG_CORE_CODES_VALUES_BINS_H_

#include <cmath>
#include <cstdint>

#include "core/base/floats.h"
#include "core/codes/values/level.h"

namespace fedplug {

// The bin of a value: round((scale * x - mean) * per_bin) + middle, ties to
// even, and of those beyond 0 and `last` the nearest.
struct Bins {
  double scale;
  double mean;
  double per_bin;
  int middle;
  int last;

  // REQUIRES: |(scale * x - mean) * per_bin| < 2^51
  FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE int Of(double x) const {
    // Beyond 1.5 * 2^52 numbers have no fraction left.
    constexpr double kNoFraction = 0x1.8p52;
    const auto lowest = static_cast<double>(-middle);
    const auto highest = static_cast<double>(last - middle);
    const double centred = scale * x - mean;
    double bin = (centred * per_bin + kNoFraction) - kNoFraction;
    bin = bin < lowest ? lowest : bin;
    bin = bin > highest ? highest : bin;
    return static_cast<int>(bin) + middle;
  }

  // The distance from the mean of all scaled values to their square sum's.
  //
  // REQUIRES: squares = sum of (scale * x - mean)^2
  FEDPLUG_HOST_DEVICE void SetWidth(double squares, std::int64_t count) {
    constexpr double kRangeInSigmas = 6;
    const double sigma = std::sqrt(
        squares * (1 / static_cast<double>(count > 2 ? count - 1 : 1)));
    per_bin = sigma > 0 ? 2.0 * middle / (kRangeInSigmas * sigma) : 0;
  }
};

// Values in a bin are added as whole numbers, cut off after this number of
// bits.
FEDPLUG_HOST_DEVICE inline int BinFractionBits(std::int64_t count) {
  int width = 0;
  for (; count > 0; count >>= 1) ++width;
  return 60 - width;
}

// The mean of the values of a bin, from the sum of its whole numbers.
FEDPLUG_HOST_DEVICE inline double BinMean(std::int64_t sum, std::int64_t count,
                                          double scale, int fraction_bits) {
  const auto whole = static_cast<double>(sum / (count > 1 ? count : 1));
  return whole * PowerOfTwo(-fraction_bits) * (1 / scale);
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_VALUES_BINS_H_
