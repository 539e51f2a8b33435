#include "core/codes/bounded/loops.h"

#include <cmath>

#include "core/simd/loops.h"

namespace fedplug::value_loops {
namespace {

FEDPLUG_ALWAYS_INLINE double Rounded(double x) {
  constexpr double kNoFraction = 0x1p52;  // numbers from here on have none
  const double magnitude = std::abs(x);
  const double whole = (magnitude + kNoFraction) - kNoFraction;
  return std::copysign(magnitude < kNoFraction ? whole : magnitude, x);
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void ExtremesLoop(const T* x, std::int64_t n, T* lowest,
                                        T* highest) {
  T low = *lowest;
  T high = *highest;
  for (std::int64_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  *lowest = low;
  *highest = high;
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void LevelsLoop(const T* x, std::int64_t n,
                                      const Multiples& multiples,
                                      std::uint8_t* high, std::uint8_t* low) {
  const Multiples m = multiples;
  const int mask = (1 << m.low_bits) - 1;
  for (std::int64_t i = 0; i < n; ++i) {
    const double scaled = m.scale * static_cast<double>(x[i]);
    const int level = static_cast<int>(Rounded(scaled * m.per_step) - m.first);
    high[i] = static_cast<std::uint8_t>(level >> m.low_bits);
    low[i] = static_cast<std::uint8_t>(level & mask);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE bool ValuesLoop(const std::uint8_t* high,
                                      const std::uint8_t* low, std::int64_t n,
                                      const Multiples& multiples, T* x) {
  const Multiples m = multiples;
  int above = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const int level = (int{high[i]} << m.low_bits) | int{low[i]};
    above |= level > m.last ? 1 : 0;
    const double multiple = m.first + static_cast<double>(level);
    double value = multiple * m.step * m.unscale;
    value = value < m.lowest ? m.lowest : value;
    value = value > m.highest ? m.highest : value;
    x[i] = static_cast<T>(value);
  }
  return above == 0;
}

}  // namespace

double RoundToWhole(double x) { return Rounded(x); }

template <typename T>
BoundedLoops<T> BoundedLoopsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return {Avx2<ExtremesLoop<T>>, Avx2<LevelsLoop<T>>, Avx2<ValuesLoop<T>>};
  }
#endif
  static_cast<void>(level);
  return {Baseline<ExtremesLoop<T>>, Baseline<LevelsLoop<T>>,
          Baseline<ValuesLoop<T>>};
}

template BoundedLoops<float> BoundedLoopsFor(SimdLevel);
template BoundedLoops<double> BoundedLoopsFor(SimdLevel);

}  // namespace fedplug::value_loops
