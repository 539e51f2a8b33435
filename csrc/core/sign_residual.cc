// Two walks: the mean of the magnitudes needs all sums, and the signs need the
// mean. The sums are made anew in the second walk, which is cheaper than to
// write them down.
#include "core/sign_residual.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/float_bits.h"
#include "core/base/float_environment.h"
#include "core/base/parallel.h"
#include "core/codes/mean_magnitude.h"
#include "core/codes/value_job.h"
#include "core/codes/value_packing.h"
#include "core/simd/loops.h"
#include "core/topk/sum_refusal.h"

namespace fedplug {
namespace {

template <typename T>
T Negated(T value) {
  constexpr auto kSign =
      static_cast<FloatBitsOf<T>>(FloatBitsOf<T>{1} << kKeyBits<T>);
  const auto bits = static_cast<FloatBitsOf<T>>(ToBits(value) ^ kSign);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float Number(float x) { return x; }
double Number(double x) { return x; }
float Number(Half x) { return ToFloat(x); }
float Number(BFloat16 x) { return ToFloat(x); }

// positive = a >= 0; rest = a - scale, or a + scale where it is not.
template <typename T>
FEDPLUG_ALWAYS_INLINE void SplitLoop(const T* delta, const T* residual,
                                     std::int64_t n, T scale, T minus_scale,
                                     T* rest, std::uint8_t* positive) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = delta[i] + residual[i];
    const bool is_positive = Number(a) >= 0;
    positive[i] = is_positive;
    rest[i] = a + (is_positive ? minus_scale : scale);
  }
}

template <typename T>
using Split = void (*)(const T*, const T*, std::int64_t, T, T, T*,
                       std::uint8_t*);

template <typename T>
Split<T> SplitFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) return Avx2<SplitLoop<T>>;
#endif
  static_cast<void>(level);
  return Baseline<SplitLoop<T>>;
}

// A mean that is the largest number, or none, is no proof that every sum is
// finite.
template <typename T>
bool IsBelowLargest(T mean) {
  return MagnitudeKey(mean) + 1 < FloatTraits<T>::kInfinity;
}

}  // namespace

template <typename T>
Status SignResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, Parallel& parallel, std::uint8_t* data,
                    std::int64_t* non_finite) {
  *non_finite = 0;
  const ValueCode code{ValueForm::kSign};
  if (Status status = CheckValueCode(code, n); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const KeepAwake awake(parallel);
  const T scale = MeanMagnitudeOfSum(delta, residual_in, n, level, parallel);
  if (!IsBelowLargest(scale)) {
    if (Status status =
            RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
        !status.ok()) {
      return status;
    }
  }
  std::memcpy(data, &scale, sizeof(scale));
  const Job<T> job(code, n, level);
  const Split<T> split = SplitFor<T>(level);
  ForEachUnit(n, value_loops::kChunk, parallel,
              [&](std::int64_t first, std::int64_t length) {
                std::array<T, value_loops::kChunk> rest;
                LevelChunk positive;
                PackedChunk packed;
                split(delta + first, residual_in + first, length, scale,
                      Negated(scale), rest.data(), positive.data());
                std::copy_n(rest.begin(), length, residual_out + first);
                PackLevels(code.form, job.layout, job.bit_loops, length,
                           &positive, &packed);
                std::copy_n(
                    packed.begin(), job.layout.LevelBytes(length),
                    data + job.layout.levels_at + job.layout.LevelBytes(first));
                return true;
              });
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                       \
  template Status SignResidual(const T*, const T*, T*, std::int64_t, \
                               Parallel&, std::uint8_t*, std::int64_t*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
