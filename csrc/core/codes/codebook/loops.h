// The inner loops of the codebook quantizer, over a chunk of values. As in
// values/loops.h, each is compiled for every SIMD level, with equal results.
#ifndef FEDPLUG_CORE_CODES_CODEBOOK_LOOPS_H_
#define FEDPLUG_CORE_CODES_CODEBOOK_LOOPS_H_

#include <cstdint>

#include "core/codes/codebook/bins.h"
#include "core/simd/level.h"

namespace fedplug::value_loops {

// T is float or double.
template <typename T>
struct CodebookLoops {
  // terms = scale * x
  void (*scaled)(const T* x, std::int64_t n, double scale, double* terms);
  // terms = (scale * x - mean)^2
  void (*squares)(const T* x, std::int64_t n, double scale, double mean,
                  double* terms);
  // The upper half of kChunk terms is added to the lower half, until one is
  // left. The terms are lost.
  double (*halved)(double* terms);
  // |(scale * x - mean) * per_bin| < 2^51
  void (*bins)(const T* x, std::int64_t n, const Bins& bins,
               std::uint8_t* symbols);
};

// REQUIRES: IsSupported(level)
template <typename T>
CodebookLoops<T> CodebookLoopsFor(SimdLevel level);

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_CODEBOOK_LOOPS_H_
