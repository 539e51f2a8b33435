// The loops of topk_blocks.h, 16 elements at a time. Chosen elements are
// packed in a register and stored whole: a compressing store to memory is
// microcoded on some processors.
#include "core/topk_blocks.h"

#if FEDPLUG_SIMD_X86

// GCC 12 warns about its own header (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

namespace fedplug::topk {
namespace {

constexpr std::int64_t kLanes = 16;
// Far enough ahead to hide the memory behind the work of 64 vectors.
constexpr std::int64_t kPrefetch = 1024;

struct Bounds {
  __m512i lo;
  __m512i hi;
  __m512i edge;
};

FEDPLUG_TARGET_AVX512 inline Bounds Broadcast(const Band<float>& band) {
  return {_mm512_set1_epi32(static_cast<int>(band.lo)),
          _mm512_set1_epi32(static_cast<int>(band.hi)),
          _mm512_set1_epi32(static_cast<int>(band.edge))};
}

FEDPLUG_TARGET_AVX512 inline __m512i KeysOf(__m512 a) {
  return _mm512_and_si512(_mm512_castps_si512(a),
                          _mm512_set1_epi32(0x7fffffff));
}

FEDPLUG_TARGET_AVX512 inline __mmask16 FrontLanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffffu : (1u << count) - 1u);
}

FEDPLUG_TARGET_AVX512 inline void Prefetch(const float* ahead) {
  _mm_prefetch(reinterpret_cast<const char*>(ahead + kPrefetch), _MM_HINT_T0);
}

FEDPLUG_TARGET_AVX512 std::uint32_t Survey(const float* delta,
                                           const float* residual,
                                           std::int64_t n,
                                           const Band<float>& band,
                                           SurveyCursor<float>* cursor) {
  const Bounds bounds = Broadcast(band);
  const bool has_edge = band.edge != Band<float>::kNoEdge;
  SurveyCursor<float> at = *cursor;
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual + i);
    const __mmask16 live = FrontLanes(n - i);
    const __m512i keys =
        KeysOf(_mm512_add_ps(_mm512_maskz_loadu_ps(live, delta + i),
                             _mm512_maskz_loadu_ps(live, residual + i)));
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 listed =
        _mm512_mask_cmp_epu32_mask(live, keys, bounds.lo, _MM_CMPINT_NLT);
    if (has_edge) {
      at.at_edge += __builtin_popcount(
          _mm512_mask_cmpeq_epu32_mask(live, keys, bounds.edge));
    }
    if (listed == 0) continue;
    const __mmask16 above =
        _mm512_mask_cmp_epu32_mask(live, keys, bounds.hi, _MM_CMPINT_NLT);
    at.above += __builtin_popcount(above);
    const auto in_band = static_cast<__mmask16>(listed ^ above);
    if (in_band == 0) continue;
    _mm512_storeu_si512(at.band_keys + at.in_band,
                        _mm512_maskz_compress_epi32(in_band, keys));
    at.in_band += __builtin_popcount(in_band);
  }
  *cursor = at;
  return _mm512_reduce_max_epu32(largest);
}

FEDPLUG_TARGET_AVX512 std::uint32_t Split(const float* delta,
                                          const float* residual_in,
                                          float* residual_out, std::int64_t n,
                                          std::int32_t first_index,
                                          const Band<float>& band,
                                          SplitCursor<float>* cursor) {
  const Bounds bounds = Broadcast(band);
  SplitCursor<float> at = *cursor;
  const __m512i lanes =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual_in + i);
    const __mmask16 live = FrontLanes(n - i);
    const __m512 a =
        _mm512_add_ps(_mm512_maskz_loadu_ps(live, delta + i),
                      _mm512_maskz_loadu_ps(live, residual_in + i));
    const __m512i keys = KeysOf(a);
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 listed =
        _mm512_mask_cmp_epu32_mask(live, keys, bounds.lo, _MM_CMPINT_NLT);
    if (listed == 0) {
      _mm512_mask_storeu_ps(residual_out + i, live, a);
      continue;
    }
    const __mmask16 above =
        _mm512_mask_cmp_epu32_mask(live, keys, bounds.hi, _MM_CMPINT_NLT);
    _mm512_mask_storeu_ps(
        residual_out + i, live,
        _mm512_maskz_mov_ps(static_cast<__mmask16>(~above), a));
    const __m512i indices = _mm512_add_epi32(
        lanes, _mm512_set1_epi32(first_index + static_cast<std::int32_t>(i)));
    _mm512_storeu_ps(at.values + at.count, _mm512_maskz_compress_ps(listed, a));
    _mm512_storeu_si512(at.indices + at.count,
                        _mm512_maskz_compress_epi32(listed, indices));
    for (unsigned in_band = listed ^ above; in_band != 0;
         in_band &= in_band - 1) {
      const unsigned before = listed & ((in_band & -in_band) - 1);
      at.band[at.in_band++] =
          static_cast<std::int32_t>(at.count) + __builtin_popcount(before);
    }
    at.count += __builtin_popcount(listed);
  }
  *cursor = at;
  return _mm512_reduce_max_epu32(largest);
}

}  // namespace

BlockKernels<float> Avx512BlockKernels() { return {Survey, Split}; }

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
