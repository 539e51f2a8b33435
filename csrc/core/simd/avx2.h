// The operations of topk/blocks_vector.cc and philox/words_vector.cc with AVX2: 8 lanes, 4 of double. Keys
// have no top bit, so that signed comparisons do.
#ifndef FEDPLUG_CORE_SIMD_AVX2_H_
#define FEDPLUG_CORE_SIMD_AVX2_H_

#include <immintrin.h>

#include <cstdint>

#include "core/base/floats.h"
#include "core/simd/level.h"
#include "core/simd/packing.h"

#define FEDPLUG_OP FEDPLUG_TARGET_AVX2 static inline

namespace fedplug::simd::avx2 {

struct Lanes32 {
  static constexpr int kLanes = 8;
  using Register = __m256i;
  using Bound = __m256i;  // one less than the bound
  using Mask = unsigned;
  using Indices = __m256i;

  FEDPLUG_OP Register Broadcast(std::uint32_t bits) {
    return _mm256_set1_epi32(static_cast<int>(bits));
  }
  FEDPLUG_OP Bound BoundOf(std::uint32_t key) { return Broadcast(key - 1); }
  FEDPLUG_OP Mask MaskOf(Register lanes) {
    return static_cast<Mask>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
  }
  FEDPLUG_OP Mask AtLeast(Register keys, Bound bound) {
    return MaskOf(_mm256_cmpgt_epi32(keys, bound));
  }
  FEDPLUG_OP Mask Equals(Register keys, Register others) {
    return MaskOf(_mm256_cmpeq_epi32(keys, others));
  }
  FEDPLUG_OP Register KeepBelow(Register a, Register keys, Bound bound) {
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(keys, bound), a);
  }
  FEDPLUG_OP Register Max(Register a, Register b) {
    return _mm256_max_epi32(a, b);
  }
  FEDPLUG_OP std::uint32_t Largest(Register keys) {
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(keys),
                                       _mm256_extracti128_si256(keys, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    const __m128i one = _mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(one));
  }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    return _mm256_permutevar8x32_epi32(
        lanes, _mm256_load_si256(reinterpret_cast<const __m256i*>(
                   &kPacking<std::int32_t, kLanes, 1>[mask])));
  }
  // REQUIRES: the lanes are below 2^16
  FEDPLUG_OP __m128i Narrow(Register lanes) {
    return _mm256_castsi256_si128(
        _mm256_permute4x64_epi64(_mm256_packus_epi32(lanes, lanes), 0x08));
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), Narrow(lanes));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), Narrow(lanes));
  }
  FEDPLUG_OP Indices Iota(std::int32_t first) {
    return Plus(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), first);
  }
  FEDPLUG_OP Indices Plus(Indices indices, std::int32_t number) {
    return _mm256_add_epi32(indices, _mm256_set1_epi32(number));
  }
  FEDPLUG_OP Indices LoadIndices(const std::int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FEDPLUG_OP void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), Pack(indices, mask));
  }
};

template <typename T>
struct Vector;

template <>
struct Vector<float> : Lanes32 {
  using Element = float;

  FEDPLUG_OP Register Sum(const float* a, const float* b) {
    return _mm256_castps_si256(
        _mm256_add_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b)));
  }
  FEDPLUG_OP Register Load(const float* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FEDPLUG_OP void Store(void* to, Register lanes) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), lanes);
  }
  FEDPLUG_OP void Stream(float* to, Register lanes) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), lanes);
  }
  FEDPLUG_OP Register Keys(Register lanes) {
    return _mm256_and_si256(lanes, Broadcast(0x7fffffff));
  }
  // As UndoNotes::DistanceOf, for lanes a that are sums.
  FEDPLUG_OP Register Distances(Register a, const float* delta,
                                const float* residual) {
    const __m256 guess =
        _mm256_sub_ps(_mm256_castsi256_ps(a), _mm256_loadu_ps(delta));
    return _mm256_add_epi32(
        _mm256_sub_epi32(Load(residual), _mm256_castps_si256(guess)),
        Broadcast(0x7fff));
  }
  // Distances that are too far are negative, as signed integers, or too large.
  FEDPLUG_OP bool AreNear(Register distances, Register keys) {
    const Register near =
        _mm256_and_si256(_mm256_cmpgt_epi32(distances, Broadcast(~0u)),
                         _mm256_cmpgt_epi32(Broadcast(0xffff), distances));
    const Register finite = _mm256_cmpgt_epi32(Broadcast(0x7f800000), keys);
    return MaskOf(_mm256_and_si256(near, finite)) == 0xff;
  }
};

template <>
struct Vector<double> {
  static constexpr int kLanes = 4;
  using Element = double;
  using Register = __m256i;
  using Bound = __m256i;  // one less than the bound
  using Mask = unsigned;
  using Indices = __m128i;

  FEDPLUG_OP Register Sum(const double* a, const double* b) {
    return _mm256_castpd_si256(
        _mm256_add_pd(_mm256_loadu_pd(a), _mm256_loadu_pd(b)));
  }
  FEDPLUG_OP Register Load(const double* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FEDPLUG_OP void Store(void* to, Register lanes) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), lanes);
  }
  FEDPLUG_OP void Stream(double* to, Register lanes) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), lanes);
  }
  FEDPLUG_OP Register Broadcast(std::uint64_t bits) {
    return _mm256_set1_epi64x(static_cast<long long>(bits));
  }
  FEDPLUG_OP Register Keys(Register lanes) {
    return _mm256_and_si256(lanes, Broadcast(0x7fffffffffffffff));
  }
  FEDPLUG_OP Register Distances(Register a, const double* delta,
                                const double* residual) {
    const __m256d guess =
        _mm256_sub_pd(_mm256_castsi256_pd(a), _mm256_loadu_pd(delta));
    return _mm256_add_epi64(
        _mm256_sub_epi64(Load(residual), _mm256_castpd_si256(guess)),
        Broadcast(0x7fff));
  }
  FEDPLUG_OP bool AreNear(Register distances, Register keys) {
    const Register near =
        _mm256_and_si256(_mm256_cmpgt_epi64(distances, Broadcast(~0ull)),
                         _mm256_cmpgt_epi64(Broadcast(0xffff), distances));
    const Register finite =
        _mm256_cmpgt_epi64(Broadcast(0x7ff0000000000000), keys);
    return MaskOf(_mm256_and_si256(near, finite)) == 0xf;
  }
  // REQUIRES: the lanes are below 2^16
  FEDPLUG_OP __m128i Narrow(Register lanes) {
    const __m128i low = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
        lanes, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
    return _mm_packus_epi32(low, low);
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), Narrow(lanes));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    _mm_stream_si64(reinterpret_cast<long long*>(to),
                    _mm_cvtsi128_si64(Narrow(lanes)));
  }
  FEDPLUG_OP Bound BoundOf(std::uint64_t key) { return Broadcast(key - 1); }
  FEDPLUG_OP Mask MaskOf(Register lanes) {
    return static_cast<Mask>(_mm256_movemask_pd(_mm256_castsi256_pd(lanes)));
  }
  FEDPLUG_OP Mask AtLeast(Register keys, Bound bound) {
    return MaskOf(_mm256_cmpgt_epi64(keys, bound));
  }
  FEDPLUG_OP Mask Equals(Register keys, Register others) {
    return MaskOf(_mm256_cmpeq_epi64(keys, others));
  }
  FEDPLUG_OP Register KeepBelow(Register a, Register keys, Bound bound) {
    return _mm256_andnot_si256(_mm256_cmpgt_epi64(keys, bound), a);
  }
  FEDPLUG_OP Register Max(Register a, Register b) {
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
  }
  FEDPLUG_OP std::uint64_t Largest(Register keys) {
    const Register pairs = Max(keys, _mm256_permute4x64_epi64(keys, 0x4e));
    const Register all = Max(pairs, _mm256_permute4x64_epi64(pairs, 0xb1));
    return static_cast<std::uint64_t>(
        _mm_cvtsi128_si64(_mm256_castsi256_si128(all)));
  }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    return _mm256_permutevar8x32_epi32(
        lanes, _mm256_load_si256(reinterpret_cast<const __m256i*>(
                   &kPacking<std::int32_t, kLanes, 2>[mask])));
  }
  FEDPLUG_OP Indices Iota(std::int32_t first) {
    return Plus(_mm_setr_epi32(0, 1, 2, 3), first);
  }
  FEDPLUG_OP Indices Plus(Indices indices, std::int32_t number) {
    return _mm_add_epi32(indices, _mm_set1_epi32(number));
  }
  FEDPLUG_OP Indices LoadIndices(const std::int32_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  FEDPLUG_OP void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(
        &kPacking<std::int32_t, kLanes, 1>[mask]));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(indices), places)));
  }
};

// The operations of philox/words_vector.cc: a word of a draw to a 64-bit lane.
struct Words {
  static constexpr int kLanes = 4;
  static constexpr int kSideBySide = 4;
  using Register = __m256i;

  FEDPLUG_OP Register Broadcast(std::uint32_t word) {
    return _mm256_set1_epi64x(word);
  }
  FEDPLUG_OP Register Iota(std::int64_t first) {
    return _mm256_add_epi64(_mm256_setr_epi64x(0, 1, 2, 3),
                            _mm256_set1_epi64x(first));
  }
  FEDPLUG_OP Register High(Register lanes) {
    return _mm256_srli_epi64(lanes, 32);
  }
  FEDPLUG_OP Register Multiply(Register a, Register b) {
    return _mm256_mul_epu32(a, b);
  }
  FEDPLUG_OP Register Xor(Register a, Register b, Register c) {
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
  }
  // The four words of each draw, one draw after the other.
  FEDPLUG_OP void InOrder(Register w0, Register w1, Register w2, Register w3,
                          Register* front, Register* back) {
    constexpr int kUpper = 0xAA;
    const __m256i first =
        _mm256_blend_epi32(w0, _mm256_slli_epi64(w1, 32), kUpper);
    const __m256i second =
        _mm256_blend_epi32(w2, _mm256_slli_epi64(w3, 32), kUpper);
    const __m256i even = _mm256_unpacklo_epi64(first, second);
    const __m256i odd = _mm256_unpackhi_epi64(first, second);
    *front = _mm256_permute2x128_si256(even, odd, 0x20);
    *back = _mm256_permute2x128_si256(even, odd, 0x31);
  }
  FEDPLUG_OP void Store(std::uint32_t* to, Register words) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
  }
};

// Numbers that are rounded with these words.
struct Floats {
  static constexpr int kLanes = 8;
  using Register = __m256;
  using Mask = __m256;

  FEDPLUG_OP Register Broadcast(float number) { return _mm256_set1_ps(number); }
  FEDPLUG_OP Register Load(const float* from) { return _mm256_loadu_ps(from); }
  FEDPLUG_OP Register Plus(Register a, Register b) {
    return _mm256_add_ps(a, b);
  }
  FEDPLUG_OP Register Minus(Register a, Register b) {
    return _mm256_sub_ps(a, b);
  }
  FEDPLUG_OP Register Times(Register a, Register b) {
    return _mm256_mul_ps(a, b);
  }
  FEDPLUG_OP Register Over(Register a, Register b) {
    return _mm256_div_ps(a, b);
  }
  FEDPLUG_OP Register Floor(Register a) { return _mm256_floor_ps(a); }
  FEDPLUG_OP Mask Below(Register a, Register b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
  }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return _mm256_blendv_ps(b, a, mask);
  }
  // The bits `kept` of the words, and these bits.
  FEDPLUG_OP Register FromWords(Words::Register words, std::uint32_t kept,
                                std::uint32_t bits) {
    return _mm256_castsi256_ps(_mm256_or_si256(
        _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(kept))),
        _mm256_set1_epi32(static_cast<int>(bits))));
  }
  // The lowest byte of each.
  FEDPLUG_OP void StoreBytes(std::uint8_t* to, Register lanes) {
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_castps_si256(lanes),
                                              _mm256_set1_epi32(0x0c080400));
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes),
                                            _mm256_extracti128_si256(bytes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), both);
  }
};

}  // namespace fedplug::simd::avx2

#undef FEDPLUG_OP

#endif  // FEDPLUG_CORE_SIMD_AVX2_H_
