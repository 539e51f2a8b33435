// The loops of topk_blocks.h, 8 elements at a time; what is left over goes
// through the plain loops. Chosen elements are packed by a permutation looked
// up by their mask. Keys have no top bit, so that signed comparisons do.
#include "core/topk/blocks.h"

#if FEDPLUG_SIMD_X86

#include <immintrin.h>

#include <algorithm>
#include <array>

namespace fedplug::topk {
namespace {

constexpr std::int64_t kLanes = 8;
// 6 KiB of each stream: a processor's own prefetchers stop at the end of a
// page.
constexpr std::int64_t kPrefetch = 1536;

// The vectors of a block that have an entry, by their first element.
using Hits = std::array<std::int32_t, kBlock / kLanes + 1>;

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

FEDPLUG_TARGET_AVX2 inline Bounds Broadcast(const PivotRange<float>& range) {
  return {_mm256_set1_epi32(static_cast<int>(range.lo) - 1),
          _mm256_set1_epi32(static_cast<int>(range.hi) - 1),
          _mm256_set1_epi32(static_cast<int>(range.edge))};
}

FEDPLUG_TARGET_AVX2 inline __m256i Lanes() {
  return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
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

// A prefetch for every vector would ask for each line twice.
FEDPLUG_TARGET_AVX2 inline void Prefetch(const float* delta,
                                         const float* residual,
                                         std::int64_t i) {
  if (i % (2 * kLanes) != 0) return;
  _mm_prefetch(reinterpret_cast<const char*>(delta + i + kPrefetch),
               _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char*>(residual + i + kPrefetch),
               _MM_HINT_T0);
}

FEDPLUG_TARGET_AVX2 inline __m256 Sum(const float* delta,
                                      const float* residual) {
  return _mm256_add_ps(_mm256_loadu_ps(delta), _mm256_loadu_ps(residual));
}

FEDPLUG_TARGET_AVX2 inline __m256i Load(const std::int32_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

FEDPLUG_TARGET_AVX2 inline std::uint32_t LargestOf(__m256i lanes) {
  alignas(32) std::uint32_t keys[kLanes];
  Store(keys, lanes);
  std::uint32_t largest = 0;
  for (const std::uint32_t key : keys) largest = key > largest ? key : largest;
  return largest;
}

FEDPLUG_TARGET_AVX2 std::uint32_t CountPass(const float* delta,
                                            const float* residual,
                                            std::int64_t n,
                                            const PivotRange<float>& range,
                                            CountCursor<float>* cursor) {
  const Bounds bounds = Broadcast(range);
  const bool has_edge = range.edge != PivotRange<float>::kNoEdge;
  CountCursor<float> at = *cursor;
  __m256i largest = _mm256_setzero_si256();
  Hits hits;
  std::size_t hit_count = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta, residual, i);
    const __m256i keys = KeysOf(Sum(delta + i, residual + i));
    largest = _mm256_max_epi32(largest, keys);
    if (has_edge) {
      at.at_edge +=
          __builtin_popcount(MaskOf(_mm256_cmpeq_epi32(keys, bounds.edge)));
    }
    const unsigned above = MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_hi));
    at.above += __builtin_popcount(above);
    hits[hit_count] = static_cast<std::int32_t>(i);
    hit_count += MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo)) != above;
  }
  for (std::size_t h = 0; h < hit_count; ++h) {
    const __m256i keys = KeysOf(Sum(delta + hits[h], residual + hits[h]));
    const unsigned in_range =
        MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo)) ^
        MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_hi));
    Store(at.range_keys + at.in_range, Pack(keys, in_range));
    at.in_range += __builtin_popcount(in_range);
  }
  const std::uint32_t rest =
      CountBlock(delta + i, residual + i, n - i, range, &at);
  *cursor = at;
  return std::max(rest, LargestOf(largest));
}

FEDPLUG_TARGET_AVX2 inline __m256 WithoutAbove(__m256 a, __m256i keys,
                                               const Bounds& bounds) {
  return _mm256_andnot_ps(
      _mm256_castsi256_ps(_mm256_cmpgt_epi32(keys, bounds.below_hi)), a);
}

// Appends the lanes at lo and above.
FEDPLUG_TARGET_AVX2 inline void List(__m256 a, __m256i keys, __m256i indices,
                                     const Bounds& bounds,
                                     PartitionCursor<float>* cursor) {
  const unsigned listed = MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo));
  Store(cursor->values + cursor->count, Pack(_mm256_castps_si256(a), listed));
  Store(cursor->indices + cursor->count, Pack(indices, listed));
  cursor->count += __builtin_popcount(listed);
}

// Writes the residual of one vector, without the lanes above, and appends the
// lanes that are listed.
FEDPLUG_TARGET_AVX2 inline void Take(__m256 a, __m256i keys, __m256i indices,
                                     const Bounds& bounds, float* residual_out,
                                     PartitionCursor<float>* cursor) {
  _mm256_storeu_ps(residual_out, WithoutAbove(a, keys, bounds));
  List(a, keys, indices, bounds, cursor);
}

// Collects the range from the entries listed since `begin`, which are fewer
// than the elements they came from.
FEDPLUG_TARGET_AVX2 inline void CollectInRange(const PivotRange<float>& range,
                                               std::int64_t begin,
                                               PartitionCursor<float>* cursor) {
  if (range.lo == range.hi) return;
  const Bounds bounds = Broadcast(range);
  std::int64_t j = begin;
  for (; j + kLanes <= cursor->count; j += kLanes) {
    const __m256i keys = KeysOf(_mm256_loadu_ps(cursor->values + j));
    const unsigned in_range =
        0xff ^ MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_hi));
    Store(cursor->range_keys + cursor->in_range, Pack(keys, in_range));
    cursor->in_range += __builtin_popcount(in_range);
  }
  for (; j < cursor->count; ++j) {
    const std::uint32_t key = MagnitudeKey(cursor->values[j]);
    cursor->range_keys[cursor->in_range] = key;
    cursor->in_range += key < range.hi;
  }
}

// The first loop adds and notes which vectors have an entry, the second goes to
// those. What is streamed is not read again: the second repeats the additions.
template <bool kStreaming>
FEDPLUG_TARGET_AVX2 std::uint32_t PartitionInTwoLoops(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  const Bounds bounds = Broadcast(range);
  const __m256i first =
      _mm256_add_epi32(Lanes(), _mm256_set1_epi32(first_index));
  PartitionCursor<float> at = *cursor;
  __m256i largest = _mm256_setzero_si256();
  Hits hits;
  std::size_t hit_count = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta, residual_in, i);
    const __m256 a = Sum(delta + i, residual_in + i);
    const __m256i keys = KeysOf(a);
    largest = _mm256_max_epi32(largest, keys);
    if constexpr (kStreaming) {
      _mm256_stream_ps(residual_out + i, WithoutAbove(a, keys, bounds));
    } else {
      _mm256_storeu_ps(residual_out + i, a);
    }
    hits[hit_count] = static_cast<std::int32_t>(i);
    hit_count += MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo)) != 0;
  }
  for (std::size_t h = 0; h < hit_count; ++h) {
    float* const out = residual_out + hits[h];
    const __m256 a = kStreaming ? Sum(delta + hits[h], residual_in + hits[h])
                                : _mm256_loadu_ps(out);
    const __m256i keys = KeysOf(a);
    if constexpr (!kStreaming) {
      _mm256_storeu_ps(out, WithoutAbove(a, keys, bounds));
    }
    List(a, keys, _mm256_add_epi32(first, _mm256_set1_epi32(hits[h])), bounds,
         &at);
  }
  CollectInRange(range, cursor->count, &at);
  const std::uint32_t rest =
      PartitionBlock(delta + i, residual_in + i, residual_out + i, n - i,
                     first_index + static_cast<std::int32_t>(i), range, &at);
  *cursor = at;
  return std::max(rest, LargestOf(largest));
}

FEDPLUG_TARGET_AVX2 std::uint32_t PartitionSparse(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  return PartitionInTwoLoops<false>(delta, residual_in, residual_out, n,
                                    first_index, range, cursor);
}

FEDPLUG_TARGET_AVX2 std::uint32_t PartitionStreaming(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(residual_out) % sizeof(__m256) == 0;
  return (aligned ? PartitionInTwoLoops<true>
                  : PartitionInTwoLoops<false>)(delta, residual_in,
                                                residual_out, n, first_index,
                                                range, cursor);
}

FEDPLUG_TARGET_AVX2 std::uint32_t PartitionDense(
    const float* delta, const float* residual_in, float* residual_out,
    std::int64_t n, std::int32_t first_index, const PivotRange<float>& range,
    PartitionCursor<float>* cursor) {
  const Bounds bounds = Broadcast(range);
  PartitionCursor<float> at = *cursor;
  __m256i indices = _mm256_add_epi32(Lanes(), _mm256_set1_epi32(first_index));
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Prefetch(delta, residual_in, i);
    const __m256 a = Sum(delta + i, residual_in + i);
    const __m256i keys = KeysOf(a);
    largest = _mm256_max_epi32(largest, keys);
    Take(a, keys, indices, bounds, residual_out + i, &at);
    indices = _mm256_add_epi32(indices, _mm256_set1_epi32(kLanes));
  }
  CollectInRange(range, cursor->count, &at);
  const std::uint32_t rest =
      PartitionBlock(delta + i, residual_in + i, residual_out + i, n - i,
                     first_index + static_cast<std::int32_t>(i), range, &at);
  *cursor = at;
  return std::max(rest, LargestOf(largest));
}

FEDPLUG_TARGET_AVX2 void Compact(const float* values,
                                 const std::int32_t* indices, std::int64_t n,
                                 std::uint32_t from, std::uint32_t hi,
                                 CompactCursor<float>* cursor) {
  const Bounds bounds = Broadcast({from, hi});
  CompactCursor<float> at = *cursor;
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const __m256 a = _mm256_loadu_ps(values + j);
    const __m256i index = Load(indices + j);
    const __m256i keys = KeysOf(a);
    const unsigned taken = MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_lo));
    const unsigned in_range =
        taken & ~MaskOf(_mm256_cmpgt_epi32(keys, bounds.below_hi));
    Store(at.values + at.count, Pack(_mm256_castps_si256(a), taken));
    Store(at.indices + at.count, Pack(index, taken));
    at.count += __builtin_popcount(taken);
    Store(at.from_range + at.in_range, Pack(index, in_range));
    at.in_range += __builtin_popcount(in_range);
  }
  CompactBlock(values + j, indices + j, n - j, from, hi, &at);
  *cursor = at;
}

}  // namespace

BlockKernels<float> Avx2BlockKernels() {
  return {CountPass, PartitionSparse, PartitionDense, PartitionStreaming,
          Compact};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
