// The loops of topk_blocks.h, 8 elements at a time; what is left over goes
// through the plain loops. Chosen elements are packed by a permutation looked
// up by their mask. Keys have no top bit, so that signed comparisons do.
#include "core/topk_blocks.h"

#if FEDPLUG_SIMD_X86

#include <immintrin.h>

#include <algorithm>
#include <array>

namespace fedplug::topk {
namespace {

constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kPrefetch = 128;

// kPacking[mask]: the lanes of the mask, in order, in front.
using Packing = std::array<std::array<std::int32_t, kLanes>, 256>;

constexpr Packing MakePacking() {
  Packing packing{};
  for (std::size_t mask = 0; mask < packing.size(); ++mask) {
    std::size_t next = 0;
    for (std::int32_t lane = 0; lane < kLanes; ++lane) {
      if (((mask >> lane) & 1) != 0) packing[mask][next++] = lane;
    }
  }
  return packing;
}

alignas(32) constexpr Packing kPacking = MakePacking();

struct Bounds {
  __m256i below_lo;
  __m256i below_hi;
  __m256i edge;
};

FEDPLUG_TARGET_AVX2 inline Bounds Broadcast(const Band<float>& band) {
  return {_mm256_set1_epi32(static_cast<int>(band.lo) - 1),
          _mm256_set1_epi32(static_cast<int>(band.hi) - 1),
          _mm256_set1_epi32(static_cast<int>(band.edge))};
}

FEDPLUG_TARGET_AVX2 inline __m256i KeysOf(__m256 a) {
  return _mm256_and_si256(_mm256_castps_si256(a),
                          _mm256_set1_epi32(0x7fffffff));
}

FEDPLUG_TARGET_AVX2 inline unsigned MaskOf(__m256i lanes) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
}

FEDPLUG_TARGET_AVX2 inline __m256i Pack(__m256i lanes, unsigned mask) {
  return _mm256_permutevar8x32_epi32(
      lanes,
      _mm256_load_si256(reinterpret_cast<const __m256i*>(&kPacking[mask])));
}

FEDPLUG_TARGET_AVX2 inline void Store(void* to, __m256i lanes) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), lanes);
}

FEDPLUG_TARGET_AVX2 inline void Prefetch(const float* ahead) {
  _mm_prefetch(reinterpret_cast<const char*>(ahead + kPrefetch), _MM_HINT_T0);
}

FEDPLUG_TARGET_AVX2 inline std::uint32_t LargestOf(__m256i lanes) {
  alignas(32) std::uint32_t keys[kLanes];
  Store(keys, lanes);
  std::uint32_t largest = 0;
  for (const std::uint32_t key : keys) largest = key > largest ? key : largest;
  return largest;
}

FEDPLUG_TARGET_AVX2 std::uint32_t Survey(const float* delta,
                                         const float* residual, std::int64_t n,
                                         const Band<float>& band,
                                         SurveyCursor<float>* cursor) {
  const Bounds bounds = Broadcast(band);
  const bool has_edge = band.edge != Band<float>::kNoEdge;
  SurveyCursor<float> at = *cursor;
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (i % 16 == 0) {
      Prefetch(delta + i);
      Prefetch(residual + i);
    }
    const __m256i keys = KeysOf(_mm256_add_ps(_mm256_loadu_ps(delta + i),
                                              _mm256_loadu_ps(residual + i)));
    largest = _mm256_max_epi32(largest, keys);
    if (has_edge) {
      at.at_edge +=
          __builtin_popcount(MaskOf(_mm256_cmpeq_epi32(keys, bounds.edge)));
    }
    const unsigned listed = MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo));
    if (listed == 0) continue;
    const unsigned above = MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_hi));
    at.above += __builtin_popcount(above);
    const unsigned in_band = listed ^ above;
    if (in_band == 0) continue;
    Store(at.band_keys + at.in_band, Pack(keys, in_band));
    at.in_band += __builtin_popcount(in_band);
  }
  const std::uint32_t rest =
      SurveyBlock(delta + i, residual + i, n - i, band, &at);
  *cursor = at;
  return std::max(rest, LargestOf(largest));
}

FEDPLUG_TARGET_AVX2 std::uint32_t Split(const float* delta,
                                        const float* residual_in,
                                        float* residual_out, std::int64_t n,
                                        std::int32_t first_index,
                                        const Band<float>& band,
                                        SplitCursor<float>* cursor) {
  const Bounds bounds = Broadcast(band);
  SplitCursor<float> at = *cursor;
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (i % 16 == 0) {
      Prefetch(delta + i);
      Prefetch(residual_in + i);
    }
    const __m256i a = _mm256_castps_si256(_mm256_add_ps(
        _mm256_loadu_ps(delta + i), _mm256_loadu_ps(residual_in + i)));
    const __m256i keys = KeysOf(_mm256_castsi256_ps(a));
    largest = _mm256_max_epi32(largest, keys);
    const __m256i is_above = _mm256_cmpgt_epi32(keys, bounds.below_hi);
    Store(residual_out + i, _mm256_andnot_si256(is_above, a));
    const unsigned listed = MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo));
    if (listed == 0) continue;
    const __m256i indices = _mm256_add_epi32(
        lanes, _mm256_set1_epi32(first_index + static_cast<std::int32_t>(i)));
    Store(at.values + at.count, Pack(a, listed));
    Store(at.indices + at.count, Pack(indices, listed));
    for (unsigned in_band = listed ^ MaskOf(is_above); in_band != 0;
         in_band &= in_band - 1) {
      const unsigned before = listed & ((in_band & -in_band) - 1);
      at.band[at.in_band++] =
          static_cast<std::int32_t>(at.count) + __builtin_popcount(before);
    }
    at.count += __builtin_popcount(listed);
  }
  const std::uint32_t rest =
      SplitBlock(delta + i, residual_in + i, residual_out + i, n - i,
                 first_index + static_cast<std::int32_t>(i), band, &at);
  *cursor = at;
  return std::max(rest, LargestOf(largest));
}

}  // namespace

BlockKernels<float> Avx2BlockKernels() { return {Survey, Split}; }

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
