// The inner loops of the error-bounded quantizer, over a chunk of values. As in
// values/loops.h, each is compiled for every SIMD level, with equal results.
#ifndef FEDPLUG_CORE_CODES_BOUNDED_LOOPS_H_
#define FEDPLUG_CORE_CODES_BOUNDED_LOOPS_H_

#include <cstdint>

#include "core/simd/level.h"

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

// To nearest, ties to even.
double RoundToWhole(double x);

// REQUIRES: IsSupported(level)
template <typename T>
BoundedLoops<T> BoundedLoopsFor(SimdLevel level);

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_BOUNDED_LOOPS_H_
