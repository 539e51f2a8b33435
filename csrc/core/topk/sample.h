// The places of a sample of an update, and the ranks of the sample that
// probably bracket a rank of all elements.
#ifndef FEDPLUG_CORE_TOPK_SAMPLE_H_
#define FEDPLUG_CORE_TOPK_SAMPLE_H_

#include <cmath>
#include <cstdint>

#include "core/base/floats.h"

namespace fedplug::topk {

// Elements sampled together: one cache line of float32.
inline constexpr std::int64_t kLine = 16;

FEDPLUG_HOST_DEVICE inline std::uint64_t Scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A random place in stratum number `line` of `lines` equally long ones. The
// places are the same in every run, though no result depends on them.
//
// REQUIRES: 0 <= line < lines <= n < 2^31
FEDPLUG_HOST_DEVICE inline std::int64_t PlaceOfLine(std::int64_t line,
                                                    std::int64_t lines,
                                                    std::int64_t n) {
  // Strata are not whole numbers wide: 32 bits are behind the binary point.
  const std::int64_t stratum = (n << 32) / lines;
  const auto random = static_cast<std::int64_t>(
      Scramble(static_cast<std::uint64_t>(line)) >> 48);
  return (line * stratum + (stratum >> 16) * random) >> 32;
}

// Ranks from the top, counted from 1. Below 1, or above the number of keys, if
// the sample does not reach that far.
struct SampleRanks {
  std::int64_t upper;
  std::int64_t lower;
};

// Wide enough for 3.5 standard deviations of the rank.
//
// REQUIRES: 0 <= k <= n, 0 < n, of which `count` are sampled
inline SampleRanks RanksInSample(std::int64_t count, std::int64_t k,
                                 std::int64_t n) {
  const double share = static_cast<double>(k) / static_cast<double>(n);
  const double rank = share * static_cast<double>(count);
  const double margin = 3.5 * std::sqrt(rank * (1 - share)) + 2;
  return {static_cast<std::int64_t>(rank - margin),
          static_cast<std::int64_t>(rank + margin) + 1};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SAMPLE_H_
