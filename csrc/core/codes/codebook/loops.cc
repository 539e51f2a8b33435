#include "core/codes/codebook/loops.h"

#include "core/codes/values/loops.h"
#include "core/simd/loops.h"

namespace fedplug::value_loops {
namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE void ScaledLoop(const T* x, std::int64_t n, double scale,
                                      double* terms) {
  for (std::int64_t i = 0; i < n; ++i) {
    terms[i] = scale * static_cast<double>(x[i]);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void SquaresLoop(const T* x, std::int64_t n, double scale,
                                       double mean, double* terms) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double centred = scale * static_cast<double>(x[i]) - mean;
    terms[i] = centred * centred;
  }
}

FEDPLUG_ALWAYS_INLINE double HalvedLoop(double* terms) {
  for (std::int64_t half = kChunk / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) terms[i] += terms[half + i];
  }
  return terms[0];
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void BinsLoop(const T* x, std::int64_t n,
                                    const Bins& bins, std::uint8_t* symbols) {
  for (std::int64_t i = 0; i < n; ++i) {
    symbols[i] = static_cast<std::uint8_t>(bins.Of(static_cast<double>(x[i])));
  }
}

}  // namespace

template <typename T>
CodebookLoops<T> CodebookLoopsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return {Avx2<ScaledLoop<T>>, Avx2<SquaresLoop<T>>, Avx2<HalvedLoop>,
            Avx2<BinsLoop<T>>};
  }
#endif
  static_cast<void>(level);
  return {Baseline<ScaledLoop<T>>, Baseline<SquaresLoop<T>>,
          Baseline<HalvedLoop>, Baseline<BinsLoop<T>>};
}

template CodebookLoops<float> CodebookLoopsFor(SimdLevel);
template CodebookLoops<double> CodebookLoopsFor(SimdLevel);

}  // namespace fedplug::value_loops
