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

constexpr int kLanes = 16;
constexpr __mmask16 kAllLanes = 0xffff;
// Eight cache lines of each stream. Farther ahead was slower where it was
// measured: the processor's own prefetchers look after the rest.
constexpr std::int64_t kPrefetch = 128;

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

FEDPLUG_TARGET_AVX512 inline __m512i Lanes() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                           15);
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

// The lanes that are not `live` are not read, and zero.
FEDPLUG_TARGET_AVX512 inline __m512 Sum(const float* delta,
                                        const float* residual, __mmask16 live) {
  return _mm512_add_ps(_mm512_maskz_loadu_ps(live, delta),
                       _mm512_maskz_loadu_ps(live, residual));
}

FEDPLUG_TARGET_AVX512 inline void SurveyVector(__m512i keys, __mmask16 live,
                                               const Bounds& bounds,
                                               bool has_edge,
                                               SurveyCursor<float>* cursor) {
  const __mmask16 listed =
      _mm512_mask_cmp_epu32_mask(live, keys, bounds.lo, _MM_CMPINT_NLT);
  if (has_edge) {
    cursor->at_edge += __builtin_popcount(
        _mm512_mask_cmpeq_epu32_mask(live, keys, bounds.edge));
  }
  if (listed == 0) return;
  const __mmask16 above =
      _mm512_mask_cmp_epu32_mask(live, keys, bounds.hi, _MM_CMPINT_NLT);
  cursor->above += __builtin_popcount(above);
  const auto in_band = static_cast<__mmask16>(listed ^ above);
  if (in_band == 0) return;
  _mm512_storeu_si512(cursor->band_keys + cursor->in_band,
                      _mm512_maskz_compress_epi32(in_band, keys));
  cursor->in_band += __builtin_popcount(in_band);
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
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual + i);
    const __m512i keys = KeysOf(Sum(delta + i, residual + i, kAllLanes));
    largest = _mm512_max_epu32(largest, keys);
    SurveyVector(keys, kAllLanes, bounds, has_edge, &at);
  }
  if (i < n) {
    const __mmask16 live = FrontLanes(n - i);
    const __m512i keys = KeysOf(Sum(delta + i, residual + i, live));
    largest = _mm512_max_epu32(largest, keys);
    SurveyVector(keys, live, bounds, has_edge, &at);
  }
  *cursor = at;
  return _mm512_reduce_max_epu32(largest);
}

// Appends the lanes of `listed`; those not in `above` are in the band.
FEDPLUG_TARGET_AVX512 inline void List(__m512 a, __m512i indices,
                                       __mmask16 listed, __mmask16 above,
                                       SplitCursor<float>* cursor) {
  _mm512_storeu_ps(cursor->values + cursor->count,
                   _mm512_maskz_compress_ps(listed, a));
  _mm512_storeu_si512(cursor->indices + cursor->count,
                      _mm512_maskz_compress_epi32(listed, indices));
  const auto in_band = static_cast<__mmask16>(listed ^ above);
  const __m512i places = _mm512_add_epi32(
      _mm512_maskz_expand_epi32(listed, Lanes()),
      _mm512_set1_epi32(static_cast<std::int32_t>(cursor->count)));
  _mm512_storeu_si512(cursor->band + cursor->in_band,
                      _mm512_maskz_compress_epi32(in_band, places));
  cursor->in_band += __builtin_popcount(in_band);
  cursor->count += __builtin_popcount(listed);
}

FEDPLUG_TARGET_AVX512 std::uint32_t Split(const float* delta,
                                          const float* residual_in,
                                          float* residual_out, std::int64_t n,
                                          std::int32_t first_index,
                                          const Band<float>& band,
                                          SplitCursor<float>* cursor) {
  const Bounds bounds = Broadcast(band);
  SplitCursor<float> at = *cursor;
  __m512i indices = _mm512_add_epi32(Lanes(), _mm512_set1_epi32(first_index));
  __m512i largest = _mm512_setzero_si512();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual_in + i);
    const __m512 a = Sum(delta + i, residual_in + i, kAllLanes);
    const __m512i keys = KeysOf(a);
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 listed =
        _mm512_cmp_epu32_mask(keys, bounds.lo, _MM_CMPINT_NLT);
    const __mmask16 below =
        _mm512_cmp_epu32_mask(keys, bounds.hi, _MM_CMPINT_LT);
    _mm512_storeu_ps(residual_out + i, _mm512_maskz_mov_ps(below, a));
    if (listed != 0) {
      List(a, indices, listed, static_cast<__mmask16>(listed & ~below), &at);
    }
    indices = _mm512_add_epi32(indices, _mm512_set1_epi32(kLanes));
  }
  if (i < n) {
    const __mmask16 live = FrontLanes(n - i);
    const __m512 a = Sum(delta + i, residual_in + i, live);
    const __m512i keys = KeysOf(a);
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 listed =
        _mm512_mask_cmp_epu32_mask(live, keys, bounds.lo, _MM_CMPINT_NLT);
    const __mmask16 below =
        _mm512_cmp_epu32_mask(keys, bounds.hi, _MM_CMPINT_LT);
    _mm512_mask_storeu_ps(residual_out + i, live,
                          _mm512_maskz_mov_ps(below, a));
    List(a, indices, listed, static_cast<__mmask16>(listed & ~below), &at);
  }
  *cursor = at;
  return _mm512_reduce_max_epu32(largest);
}

}  // namespace

BlockKernels<float> Avx512BlockKernels() { return {Survey, Split}; }

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
