// The loops of topk_blocks.h, 16 elements at a time. Chosen elements are
// packed in a register and stored whole: a compressing store to memory is
// microcoded on some processors.
#include "core/topk/blocks.h"

#if FEDPLUG_SIMD_X86

// GCC 12 warns about its own header (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>

namespace fedplug::topk {
namespace {

constexpr int kLanes = 16;
constexpr __mmask16 kAllLanes = 0xffff;
// 6 KiB of each stream: a processor's own prefetchers stop at the end of a
// page.
constexpr std::int64_t kPrefetch = 1536;

// The vectors of a block that have an entry, by their first element.
using Hits = std::array<std::int32_t, kBlock / kLanes + 1>;

struct Bounds {
  __m512i lo;
  __m512i hi;
  __m512i edge;
};

FEDPLUG_TARGET_AVX512 inline Bounds Broadcast(const PivotRange<float>& range) {
  return {_mm512_set1_epi32(static_cast<int>(range.lo)),
          _mm512_set1_epi32(static_cast<int>(range.hi)),
          _mm512_set1_epi32(static_cast<int>(range.edge))};
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

FEDPLUG_TARGET_AVX512 inline __m512 WithoutLanes(__m512 a, __mmask16 lanes) {
  return _mm512_maskz_mov_ps(static_cast<__mmask16>(~lanes), a);
}

// The lanes that are not `live` are not read, and zero.
FEDPLUG_TARGET_AVX512 inline __m512 Sum(const float* delta,
                                        const float* residual, __mmask16 live) {
  return _mm512_add_ps(_mm512_maskz_loadu_ps(live, delta),
                       _mm512_maskz_loadu_ps(live, residual));
}

FEDPLUG_TARGET_AVX512 inline __mmask16 AtLeast(__m512i keys, __m512i bound) {
  return _mm512_cmp_epu32_mask(keys, bound, _MM_CMPINT_NLT);
}

FEDPLUG_TARGET_AVX512 inline void Collect(__m512i keys, __mmask16 in_range,
                                          CountCursor<float>* cursor) {
  _mm512_storeu_si512(cursor->range_keys + cursor->in_range,
                      _mm512_maskz_compress_epi32(in_range, keys));
  cursor->in_range += __builtin_popcount(in_range);
}

FEDPLUG_TARGET_AVX512 std::uint32_t CountPass(const float* delta,
                                              const float* residual,
                                              std::int64_t n,
                                              const PivotRange<float>& range,
                                              CountCursor<float>* cursor) {
  const Bounds bounds = Broadcast(range);
  const bool has_edge = range.edge != PivotRange<float>::kNoEdge;
  CountCursor<float> at = *cursor;
  __m512i largest = _mm512_setzero_si512();
  Hits hits;
  std::size_t hit_count = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual + i);
    const __m512i keys = KeysOf(Sum(delta + i, residual + i, kAllLanes));
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 above = AtLeast(keys, bounds.hi);
    at.above += __builtin_popcount(above);
    if (has_edge) {
      at.at_edge +=
          __builtin_popcount(_mm512_cmpeq_epu32_mask(keys, bounds.edge));
    }
    hits[hit_count] = static_cast<std::int32_t>(i);
    hit_count += AtLeast(keys, bounds.lo) != above;
  }
  for (std::size_t h = 0; h < hit_count; ++h) {
    const __m512i keys =
        KeysOf(Sum(delta + hits[h], residual + hits[h], kAllLanes));
    Collect(keys,
            static_cast<__mmask16>(AtLeast(keys, bounds.lo) ^
                                   AtLeast(keys, bounds.hi)),
            &at);
  }
  if (i < n) {
    const __mmask16 live = FrontLanes(n - i);
    const __m512i keys = KeysOf(Sum(delta + i, residual + i, live));
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 above = AtLeast(keys, bounds.hi) & live;
    at.above += __builtin_popcount(above);
    at.at_edge += __builtin_popcount(
        _mm512_mask_cmpeq_epu32_mask(live, keys, bounds.edge));
    Collect(keys,
            static_cast<__mmask16>((AtLeast(keys, bounds.lo) & live) ^ above),
            &at);
  }
  *cursor = at;
  return _mm512_reduce_max_epu32(largest);
}

// Appends the lanes of `listed`.
FEDPLUG_TARGET_AVX512 inline void List(__m512 a, __m512i indices,
                                       __mmask16 listed,
                                       PartitionCursor<float>* cursor) {
  _mm512_storeu_ps(cursor->values + cursor->count,
                   _mm512_maskz_compress_ps(listed, a));
  _mm512_storeu_si512(cursor->indices + cursor->count,
                      _mm512_maskz_compress_epi32(listed, indices));
  cursor->count += __builtin_popcount(listed);
}

// Collects the range from the entries listed since `begin`, which are fewer
// than the elements they came from.
FEDPLUG_TARGET_AVX512 inline void CollectInRange(
    const PivotRange<float>& range, std::int64_t begin,
    PartitionCursor<float>* cursor) {
  if (range.lo == range.hi) return;
  const __m512i hi = _mm512_set1_epi32(static_cast<int>(range.hi));
  for (std::int64_t j = begin; j < cursor->count; j += kLanes) {
    const __mmask16 live = FrontLanes(cursor->count - j);
    const __m512i keys =
        KeysOf(_mm512_maskz_loadu_ps(live, cursor->values + j));
    const auto in_range = static_cast<__mmask16>(live & ~AtLeast(keys, hi));
    _mm512_storeu_si512(cursor->range_keys + cursor->in_range,
                        _mm512_maskz_compress_epi32(in_range, keys));
    cursor->in_range += __builtin_popcount(in_range);
  }
}

// The rest of a block that whole vectors leave over.
FEDPLUG_TARGET_AVX512 inline std::uint32_t SplitFront(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, __m512i indices, const Bounds& bounds,
    PartitionCursor<float>* cursor) {
  const __mmask16 live = FrontLanes(n);
  const __m512 a = Sum(delta, residual_in, live);
  const __m512i keys = KeysOf(a);
  const __mmask16 above = AtLeast(keys, bounds.hi) & live;
  _mm512_mask_storeu_ps(residual_out, live, WithoutLanes(a, above));
  List(a, indices, AtLeast(keys, bounds.lo) & live, cursor);
  return _mm512_reduce_max_epu32(keys);
}

// Two loops: the first adds and notes which vectors have an entry, the second
// goes to those. A branch for every vector would be mispredicted too often.
// What is streamed is not read again: the second loop repeats the additions.
template <bool kStreaming>
FEDPLUG_TARGET_AVX512 std::uint32_t PartitionInTwoLoops(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  const Bounds bounds = Broadcast(range);
  PartitionCursor<float> at = *cursor;
  __m512i largest = _mm512_setzero_si512();
  Hits hits;
  std::size_t hit_count = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual_in + i);
    const __m512 a = Sum(delta + i, residual_in + i, kAllLanes);
    const __m512i keys = KeysOf(a);
    largest = _mm512_max_epu32(largest, keys);
    if constexpr (kStreaming) {
      _mm512_stream_ps(residual_out + i,
                       WithoutLanes(a, AtLeast(keys, bounds.hi)));
    } else {
      _mm512_storeu_ps(residual_out + i, a);
    }
    hits[hit_count] = static_cast<std::int32_t>(i);
    hit_count += AtLeast(keys, bounds.lo) != 0;
  }
  const __m512i first =
      _mm512_add_epi32(Lanes(), _mm512_set1_epi32(first_index));
  for (std::size_t h = 0; h < hit_count; ++h) {
    float* const out = residual_out + hits[h];
    const __m512 a =
        kStreaming ? Sum(delta + hits[h], residual_in + hits[h], kAllLanes)
                   : _mm512_loadu_ps(out);
    const __m512i keys = KeysOf(a);
    if constexpr (!kStreaming) {
      _mm512_storeu_ps(out, WithoutLanes(a, AtLeast(keys, bounds.hi)));
    }
    List(a, _mm512_add_epi32(first, _mm512_set1_epi32(hits[h])),
         AtLeast(keys, bounds.lo), &at);
  }
  std::uint32_t rest = 0;
  if (i < n) {
    rest =
        SplitFront(delta + i, residual_in + i, residual_out + i, n - i,
                   _mm512_add_epi32(
                       first, _mm512_set1_epi32(static_cast<std::int32_t>(i))),
                   bounds, &at);
  }
  CollectInRange(range, cursor->count, &at);
  *cursor = at;
  return std::max(rest, _mm512_reduce_max_epu32(largest));
}

FEDPLUG_TARGET_AVX512 std::uint32_t PartitionSparse(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  return PartitionInTwoLoops<false>(delta, residual_in, residual_out, n,
                                    first_index, range, cursor);
}

FEDPLUG_TARGET_AVX512 std::uint32_t PartitionStreaming(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(residual_out) % sizeof(__m512) == 0;
  return (aligned ? PartitionInTwoLoops<true>
                  : PartitionInTwoLoops<false>)(delta, residual_in,
                                                residual_out, n, first_index,
                                                range, cursor);
}

FEDPLUG_TARGET_AVX512 std::uint32_t PartitionDense(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  const Bounds bounds = Broadcast(range);
  PartitionCursor<float> at = *cursor;
  __m512i indices = _mm512_add_epi32(Lanes(), _mm512_set1_epi32(first_index));
  __m512i largest = _mm512_setzero_si512();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta + i);
    Prefetch(residual_in + i);
    const __m512 a = Sum(delta + i, residual_in + i, kAllLanes);
    const __m512i keys = KeysOf(a);
    largest = _mm512_max_epu32(largest, keys);
    const __mmask16 above = AtLeast(keys, bounds.hi);
    _mm512_storeu_ps(residual_out + i, WithoutLanes(a, above));
    List(a, indices, AtLeast(keys, bounds.lo), &at);
    indices = _mm512_add_epi32(indices, _mm512_set1_epi32(kLanes));
  }
  std::uint32_t rest = 0;
  if (i < n) {
    rest = SplitFront(delta + i, residual_in + i, residual_out + i, n - i,
                      indices, bounds, &at);
  }
  CollectInRange(range, cursor->count, &at);
  *cursor = at;
  return std::max(rest, _mm512_reduce_max_epu32(largest));
}

FEDPLUG_TARGET_AVX512 void Compact(const float* values,
                                   const std::int32_t* indices, std::int64_t n,
                                   std::uint32_t from, std::uint32_t hi,
                                   CompactCursor<float>* cursor) {
  const __m512i from_lanes = _mm512_set1_epi32(static_cast<int>(from));
  const __m512i hi_lanes = _mm512_set1_epi32(static_cast<int>(hi));
  CompactCursor<float> at = *cursor;
  for (std::int64_t j = 0; j < n; j += kLanes) {
    const __mmask16 live = FrontLanes(n - j);
    const __m512 a = _mm512_maskz_loadu_ps(live, values + j);
    const __m512i index = _mm512_maskz_loadu_epi32(live, indices + j);
    const __m512i keys = KeysOf(a);
    const __mmask16 taken = AtLeast(keys, from_lanes) & live;
    const __mmask16 in_range = taken & ~AtLeast(keys, hi_lanes);
    _mm512_storeu_ps(at.values + at.count, _mm512_maskz_compress_ps(taken, a));
    _mm512_storeu_si512(at.indices + at.count,
                        _mm512_maskz_compress_epi32(taken, index));
    _mm512_storeu_si512(at.from_range + at.in_range,
                        _mm512_maskz_compress_epi32(in_range, index));
    at.count += __builtin_popcount(taken);
    at.in_range += __builtin_popcount(in_range);
  }
  *cursor = at;
}

}  // namespace

BlockKernels<float> Avx512BlockKernels() {
  return {CountPass, PartitionSparse, PartitionDense, PartitionStreaming,
          Compact};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
