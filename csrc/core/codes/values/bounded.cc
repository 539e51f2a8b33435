// The step is as wide as the bound allows, less the rounding errors of
// arithmetic and dtype. If that leaves nothing, it is a power of two: then
// every multiple is a number of the dtype or close enough to one. Values are
// scaled by a power of two to a largest magnitude in [1, 4), so that nothing
// overflows and denormals keep their digits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/base/bytes.h"
#include "core/codes/values/forms.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/level.h"
#include "core/simd/level.h"
#include "core/simd/loops.h"

// The inner loops of the error-bounded quantizer, over a chunk of values. As in
// values/loops.h, each is compiled for every SIMD level, with equal results.

namespace fedplug::value_loops {

// Value x is multiple round(scale * x * per_step) of the step, ties to even.
// Its level is how far that is above `first`, which is the multiple of
// `lowest`.
struct Multiples {
  double scale;     // a power of two
  double unscale;   // 1 / scale
  double step;      // 0 where all values are equal
  double per_step;  // 1 / step, or 0
  double first;
  double lowest;
  double highest;
  int last;      // the level of `highest`
  int low_bits;  // of a level: written beside the higher ones
};

// T is float or double.
template <typename T>
struct BoundedLoops {
  // Lowers *lowest and raises *highest to the extremes of x.
  void (*extremes)(const T* x, std::int64_t n, T* lowest, T* highest);
  // REQUIRES: lowest <= x <= highest
  void (*levels)(const T* x, std::int64_t n, const Multiples& multiples,
                 std::uint8_t* high, std::uint8_t* low);
  // The values, none outside [lowest, highest]. False if a level is above the
  // last, and the values are then unspecified.
  bool (*values)(const std::uint8_t* high, const std::uint8_t* low,
                 std::int64_t n, const Multiples& multiples, T* x);
};

namespace {

// To nearest, ties to even.
FEDPLUG_ALWAYS_INLINE double RoundToWhole(double x) {
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
    const int level =
        static_cast<int>(RoundToWhole(scaled * m.per_step) - m.first);
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

// REQUIRES: IsSupported(level)
template <typename T>
BoundedLoops<T> BoundedLoopsFor(SimdLevel level) {
  return {LoopFor<ExtremesLoop<T>>(level), LoopFor<LevelsLoop<T>>(level),
          LoopFor<ValuesLoop<T>>(level)};
}

}  // namespace
}  // namespace fedplug::value_loops

namespace fedplug {
namespace {

using value_loops::BoundedLoops;
using value_loops::Multiples;
using value_loops::WideOf;

// The rounding error of a dtype: half a unit in the last place of the largest
// magnitude, or half the smallest denormal number.
template <typename T>
struct Places;
template <>
struct Places<float> {
  static constexpr int kSignificand = 24;
  static constexpr int kSmallest = -149;
};
template <>
struct Places<double> {
  static constexpr int kSignificand = 53;
  static constexpr int kSmallest = -1074;
};
template <>
struct Places<Half> {
  static constexpr int kSignificand = 11;
  static constexpr int kSmallest = -24;
};
template <>
struct Places<BFloat16> {
  static constexpr int kSignificand = 8;
  static constexpr int kSmallest = -133;
};

template <typename T>
struct Extremes {
  T lowest;
  T highest;
};

// The largest power of two not above x, or 0; x is 0 or normal.
double PowerBelow(double x) {
  const std::uint64_t bits = ToBits(x) & 0x7ff0000000000000u;
  double power;
  std::memcpy(&power, &bits, sizeof(power));
  return power;
}

template <typename T>
Multiples MultiplesOf(const Job<T>& job, Extremes<WideOf<T>> extremes) {
  const auto lowest = static_cast<double>(extremes.lowest);
  const auto highest = static_cast<double>(extremes.highest);
  const double largest = std::max(std::abs(lowest), std::abs(highest));
  const int power = PowerOfScale(largest);
  Multiples m{};
  m.scale = PowerOfTwo(power);
  m.unscale = PowerOfTwo(-power);
  m.lowest = lowest;
  m.highest = highest;
  m.low_bits = job.layout.low_bits;

  constexpr double kOfLargest =
      1.25 / (std::int64_t{1} << (Places<T>::kSignificand - 1)) + 0x1p-49;
  const double rounded_off =
      m.scale * largest * kOfLargest +
      PowerOfTwo(std::max(-1022, power + Places<T>::kSmallest + 1));
  const double twice = 2.0 * static_cast<double>(job.code.relative);
  const double widest =
      (m.scale * highest - m.scale * lowest) * (twice * (1 - 0x1p-50));
  m.step = std::max(widest - rounded_off, PowerBelow(widest));
  m.per_step = m.step > 0 ? 1 / m.step : 0;
  m.first = value_loops::RoundToWhole(m.scale * lowest * m.per_step);
  m.last = static_cast<int>(
      value_loops::RoundToWhole(m.scale * highest * m.per_step) - m.first);
  return m;
}

template <typename T>
bool FindExtremes(const Job<T>& job, const T* values,
                  const BoundedLoops<WideOf<T>>& loops, Parallel& parallel,
                  Extremes<WideOf<T>>* all) {
  using Wide = WideOf<T>;
  constexpr Wide kInfinity = std::numeric_limits<Wide>::infinity();
  std::vector<Extremes<Wide>> of_units(static_cast<std::size_t>(
      (job.count + kSmallestShare - 1) / kSmallestShare));
  const bool finite = ForEachUnit(
      job.count, kSmallestShare, parallel,
      [&](std::int64_t begin, std::int64_t size) {
        Extremes<Wide> mine{kInfinity, -kInfinity};
        const bool good =
            ForEachChunk(begin, size, [&](std::int64_t first, std::int64_t n) {
              WideChunk<T> staging;
              const Wide* const x = Widened(job, values + first, n, &staging);
              loops.extremes(x, n, &mine.lowest, &mine.highest);
              return IsFiniteKey<Wide>(job.level_loops.largest(x, n));
            });
        of_units[static_cast<std::size_t>(begin / kSmallestShare)] = mine;
        return good;
      });
  *all = of_units.empty() ? Extremes<Wide>{0, 0} : of_units[0];
  for (const auto& unit : of_units) {
    all->lowest = std::min(all->lowest, unit.lowest);
    all->highest = std::max(all->highest, unit.highest);
  }
  // -0 would be a second code for the same values.
  if (all->lowest == 0) all->lowest = 0;
  if (all->highest == 0) all->highest = 0;
  return finite;
}

// The place of the lower bits of a level and those after it.
std::int64_t LowAt(const ValueLayout& layout, std::int64_t first) {
  return layout.low_at + first / 8 * layout.low_bits;
}

}  // namespace

template <typename T>
bool EncodeBounded(const Job<T>& job, const T* values, Parallel& parallel,
                   std::uint8_t* data) {
  using Wide = WideOf<T>;
  const KeepAwake awake(parallel);
  const auto loops = value_loops::BoundedLoopsFor<Wide>(job.simd);
  Extremes<Wide> extremes;
  if (!FindExtremes(job, values, loops, parallel, &extremes)) return false;
  const ValueLayout& layout = job.layout;
  std::copy_n(layout.header.begin(), layout.header_bytes, data);
  WriteScale(job, extremes.lowest, 0, data);
  WriteScale(job, extremes.highest, 1, data);

  const Multiples multiples = MultiplesOf(job, extremes);
  const auto encode_chunk = [&](std::int64_t first, std::int64_t n) {
    WideChunk<T> staging;
    LevelChunk high;
    LevelChunk low;
    loops.levels(Widened(job, values + first, n, &staging), n, multiples,
                 high.data(), low.data());
    PackChunk(job.bit_loops, n, layout.low_bits, &low,
              data + LowAt(layout, first));
    PackLevels(layout, job.bit_loops, first, n, &high, data);
    return true;
  };
  return ForEachUnit(job.count, layout.Unit(), parallel, encode_chunk);
}

template <typename T>
bool DecodeBounded(const Job<T>& job, const std::uint8_t* data,
                   Parallel& parallel, T* values) {
  using Wide = WideOf<T>;
  const Extremes<Wide> extremes{ReadScale(job, data, 0),
                                ReadScale(job, data, 1)};
  for (const Wide extreme : {extremes.lowest, extremes.highest}) {
    const bool minus_zero = extreme == 0 && ToBits(extreme) != 0;
    if (!IsFinite(extreme) || minus_zero) return false;
  }
  if (extremes.lowest > extremes.highest) return false;

  const ValueLayout& layout = job.layout;
  const auto loops = value_loops::BoundedLoopsFor<Wide>(job.simd);
  const Multiples multiples = MultiplesOf(job, extremes);
  const auto decode_chunk = [&](std::int64_t first, std::int64_t n) {
    LevelChunk high;
    LevelChunk low;
    if (!UnpackChunk(job.bit_loops,
                     data + layout.levels_at + layout.LevelBytes(first), n,
                     layout.group_bytes, &high) ||
        !UnpackChunk(job.bit_loops, data + LowAt(layout, first), n,
                     layout.low_bits, &low)) {
      return false;
    }
    if constexpr (std::is_same_v<T, Wide>) {
      return loops.values(high.data(), low.data(), n, multiples,
                          values + first);
    } else {
      WideChunk<T> wide;
      const bool known =
          loops.values(high.data(), low.data(), n, multiples, wide.data());
      NarrowTo(job, wide.data(), n, values + first);
      return known;
    }
  };
  return ForEachUnit(job.count, layout.Unit(), parallel, decode_chunk);
}

#define FEDPLUG_INSTANTIATE(T)                                    \
  template bool EncodeBounded(const Job<T>&, const T*, Parallel&, \
                              std::uint8_t*);                     \
  template bool DecodeBounded(const Job<T>&, const std::uint8_t*, Parallel&, T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
