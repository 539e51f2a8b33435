// Plain loops, which the compiler vectorises. binary16 uses the processor's
// instructions.
#include "core/codes/values/cast_loops.h"

#include <cstring>

#include "core/base/float_bits.h"
#include "core/codes/values/level.h"
#include "core/simd/loops.h"

#if FEDPLUG_SIMD_X86
#include <immintrin.h>
#endif

namespace fedplug::value_loops {
namespace {

// As signed integers, which every instruction set can compare: a key has no
// sign bit.
FEDPLUG_ALWAYS_INLINE std::int32_t SignedKey(float x) {
  return static_cast<std::int32_t>(MagnitudeKey(x));
}

template <typename Narrow>
FEDPLUG_ALWAYS_INLINE std::uint32_t NarrowLoop(const float* x, std::int64_t n,
                                               std::uint8_t* data) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t key = SignedKey(x[i]);
    largest = key > largest ? key : largest;
    const std::uint16_t bits = FiniteBits<Narrow>(x[i]);
    std::memcpy(data + 2 * i, &bits, sizeof(bits));
  }
  return static_cast<std::uint32_t>(largest);
}

template <typename Narrow>
FEDPLUG_ALWAYS_INLINE std::uint32_t WidenLoop(const std::uint8_t* data,
                                              std::int64_t n, float* x) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    Narrow narrow;
    std::memcpy(&narrow, data + 2 * i, sizeof(narrow));
    x[i] = ToFloat(narrow);
    const std::int32_t key = SignedKey(x[i]);
    largest = key > largest ? key : largest;
  }
  return static_cast<std::uint32_t>(largest);
}

#if FEDPLUG_SIMD_X86
constexpr std::int64_t kLanes = 8;

FEDPLUG_TARGET_AVX2 inline std::uint32_t LargestOf(__m256i keys) {
  alignas(32) std::uint32_t lanes[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), keys);
  std::uint32_t largest = 0;
  for (const std::uint32_t key : lanes) largest = key > largest ? key : largest;
  return largest;
}

FEDPLUG_TARGET_AVX2 inline __m256i KeysOf(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x),
                          _mm256_set1_epi32(0x7fffffff));
}

FEDPLUG_TARGET_AVX2 std::uint32_t NarrowToHalfs(const float* x, std::int64_t n,
                                                std::uint8_t* data) {
  const __m128i magnitude = _mm_set1_epi16(0x7fff);
  const __m128i infinity = _mm_set1_epi16(0x7c00);
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 values = _mm256_loadu_ps(x + i);
    largest = _mm256_max_epi32(largest, KeysOf(values));
    const __m128i halfs = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
    const __m128i infinite =
        _mm_cmpeq_epi16(_mm_and_si128(halfs, magnitude), infinity);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data + 2 * i),
                     _mm_add_epi16(halfs, infinite));
  }
  const std::uint32_t rest = NarrowLoop<Half>(x + i, n - i, data + 2 * i);
  return rest > LargestOf(largest) ? rest : LargestOf(largest);
}

FEDPLUG_TARGET_AVX2 std::uint32_t WidenHalfs(const std::uint8_t* data,
                                             std::int64_t n, float* x) {
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 values = _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 2 * i)));
    largest = _mm256_max_epi32(largest, KeysOf(values));
    _mm256_storeu_ps(x + i, values);
  }
  const std::uint32_t rest = WidenLoop<Half>(data + 2 * i, n - i, x + i);
  return rest > LargestOf(largest) ? rest : LargestOf(largest);
}
#endif

}  // namespace

template <>
CastLoops CastLoopsFor<Half>(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return {NarrowToHalfs, WidenHalfs};
  }
#endif
  static_cast<void>(level);
  return {Baseline<NarrowLoop<Half>>, Baseline<WidenLoop<Half>>};
}

template <>
CastLoops CastLoopsFor<BFloat16>(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return {Avx2<NarrowLoop<BFloat16>>, Avx2<WidenLoop<BFloat16>>};
  }
#endif
  static_cast<void>(level);
  return {Baseline<NarrowLoop<BFloat16>>, Baseline<WidenLoop<BFloat16>>};
}

}  // namespace fedplug::value_loops
