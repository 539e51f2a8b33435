// The operations of topk/blocks_vector.cc and philox/words_vector.cc with AVX-512: 16 lanes, 8 of double.
// Chosen lanes are packed in a register and stored whole: a compressing store to memory is
// microcoded on some processors.
#ifndef FEDPLUG_CORE_SIMD_AVX512_H_
#define FEDPLUG_CORE_SIMD_AVX512_H_

#include <cstdint>

// GCC 12 warns about its own header (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "core/base/floats.h"
#include "core/simd/level.h"

#define FEDPLUG_OP FEDPLUG_TARGET_AVX512 static inline

namespace fedplug::simd::avx512 {

struct Lanes32 {
  static constexpr int kLanes = 16;
  using Register = __m512i;
  using Bound = __m512i;
  using Mask = __mmask16;
  using Indices = __m512i;

  FEDPLUG_OP Register Broadcast(std::uint32_t bits) {
    return _mm512_set1_epi32(static_cast<int>(bits));
  }
  FEDPLUG_OP Bound BoundOf(std::uint32_t key) { return Broadcast(key); }
  FEDPLUG_OP Mask AtLeast(Register keys, Bound bound) {
    return _mm512_cmp_epu32_mask(keys, bound, _MM_CMPINT_NLT);
  }
  FEDPLUG_OP Mask Equals(Register keys, Register others) {
    return _mm512_cmpeq_epu32_mask(keys, others);
  }
  FEDPLUG_OP Register KeepBelow(Register a, Register keys, Bound bound) {
    return _mm512_maskz_mov_epi32(
        _mm512_cmp_epu32_mask(keys, bound, _MM_CMPINT_LT), a);
  }
  FEDPLUG_OP Register Max(Register a, Register b) {
    return _mm512_max_epu32(a, b);
  }
  FEDPLUG_OP std::uint32_t Largest(Register keys) {
    return _mm512_reduce_max_epu32(keys);
  }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    return _mm512_maskz_compress_epi32(mask, lanes);
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtepi32_epi16(lanes));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtepi32_epi16(lanes));
  }
  FEDPLUG_OP Indices Iota(std::int32_t first) {
    return _mm512_add_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32(first));
  }
  FEDPLUG_OP Indices Plus(Indices indices, std::int32_t number) {
    return _mm512_add_epi32(indices, _mm512_set1_epi32(number));
  }
  FEDPLUG_OP Indices LoadIndices(const std::int32_t* from) {
    return _mm512_loadu_si512(from);
  }
  FEDPLUG_OP void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, indices));
  }
};

template <typename T>
struct Vector;

template <>
struct Vector<float> : Lanes32 {
  using Element = float;

  FEDPLUG_OP Register Sum(const float* a, const float* b) {
    return _mm512_castps_si512(
        _mm512_add_ps(_mm512_loadu_ps(a), _mm512_loadu_ps(b)));
  }
  FEDPLUG_OP Register Load(const float* from) {
    return _mm512_loadu_si512(from);
  }
  FEDPLUG_OP void Store(void* to, Register lanes) {
    _mm512_storeu_si512(to, lanes);
  }
  FEDPLUG_OP void Stream(float* to, Register lanes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), lanes);
  }
  FEDPLUG_OP Register Keys(Register lanes) {
    return _mm512_and_si512(lanes, Broadcast(0x7fffffff));
  }
  // As UndoNotes::DistanceOf, for lanes a that are sums.
  FEDPLUG_OP Register Distances(Register a, const float* delta,
                                const float* residual) {
    const __m512 guess =
        _mm512_sub_ps(_mm512_castsi512_ps(a), _mm512_loadu_ps(delta));
    return _mm512_add_epi32(
        _mm512_sub_epi32(Load(residual), _mm512_castps_si512(guess)),
        Broadcast(0x7fff));
  }
  FEDPLUG_OP bool AreNear(Register distances, Register keys) {
    return !(AtLeast(distances, Broadcast(0xffff)) |
             AtLeast(keys, Broadcast(0x7f800000)));
  }
};

template <>
struct Vector<double> {
  static constexpr int kLanes = 8;
  using Element = double;
  using Register = __m512i;
  using Bound = __m512i;
  using Mask = __mmask8;
  using Indices = __m256i;

  FEDPLUG_OP Register Sum(const double* a, const double* b) {
    return _mm512_castpd_si512(
        _mm512_add_pd(_mm512_loadu_pd(a), _mm512_loadu_pd(b)));
  }
  FEDPLUG_OP Register Load(const double* from) {
    return _mm512_loadu_si512(from);
  }
  FEDPLUG_OP void Store(void* to, Register lanes) {
    _mm512_storeu_si512(to, lanes);
  }
  FEDPLUG_OP void Stream(double* to, Register lanes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), lanes);
  }
  FEDPLUG_OP Register Broadcast(std::uint64_t bits) {
    return _mm512_set1_epi64(static_cast<long long>(bits));
  }
  FEDPLUG_OP Register Keys(Register lanes) {
    return _mm512_and_si512(lanes, Broadcast(0x7fffffffffffffff));
  }
  FEDPLUG_OP Register Distances(Register a, const double* delta,
                                const double* residual) {
    const __m512d guess =
        _mm512_sub_pd(_mm512_castsi512_pd(a), _mm512_loadu_pd(delta));
    return _mm512_add_epi64(
        _mm512_sub_epi64(Load(residual), _mm512_castpd_si512(guess)),
        Broadcast(0x7fff));
  }
  FEDPLUG_OP bool AreNear(Register distances, Register keys) {
    return !(AtLeast(distances, Broadcast(0xffff)) |
             AtLeast(keys, Broadcast(0x7ff0000000000000)));
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi64_epi16(lanes));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi64_epi16(lanes));
  }
  FEDPLUG_OP Bound BoundOf(std::uint64_t key) { return Broadcast(key); }
  FEDPLUG_OP Mask AtLeast(Register keys, Bound bound) {
    return _mm512_cmp_epu64_mask(keys, bound, _MM_CMPINT_NLT);
  }
  FEDPLUG_OP Mask Equals(Register keys, Register others) {
    return _mm512_cmpeq_epu64_mask(keys, others);
  }
  FEDPLUG_OP Register KeepBelow(Register a, Register keys, Bound bound) {
    return _mm512_maskz_mov_epi64(
        _mm512_cmp_epu64_mask(keys, bound, _MM_CMPINT_LT), a);
  }
  FEDPLUG_OP Register Max(Register a, Register b) {
    return _mm512_max_epu64(a, b);
  }
  FEDPLUG_OP std::uint64_t Largest(Register keys) {
    return _mm512_reduce_max_epu64(keys);
  }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    return _mm512_maskz_compress_epi64(mask, lanes);
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
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_castsi512_si256(_mm512_maskz_compress_epi32(
                            mask, _mm512_castsi256_si512(indices))));
  }
};

// The operations of philox/words_vector.cc: a word of a draw to a 64-bit lane.
struct Words {
  static constexpr int kLanes = 8;
  static constexpr int kSideBySide = 4;
  using Register = __m512i;

  FEDPLUG_OP Register Broadcast(std::uint32_t word) {
    return _mm512_set1_epi64(word);
  }
  FEDPLUG_OP Register Iota(std::int64_t first) {
    return _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                            _mm512_set1_epi64(first));
  }
  FEDPLUG_OP Register High(Register lanes) {
    return _mm512_srli_epi64(lanes, 32);
  }
  FEDPLUG_OP Register Multiply(Register a, Register b) {
    return _mm512_mul_epu32(a, b);
  }
  FEDPLUG_OP Register Xor(Register a, Register b, Register c) {
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
  }
  // The four words of each draw, one draw after the other.
  FEDPLUG_OP void InOrder(Register w0, Register w1, Register w2, Register w3,
                          Register* front, Register* back) {
    constexpr __mmask16 kUpper = 0xAAAA;
    const __m512i first =
        _mm512_mask_mov_epi32(w0, kUpper, _mm512_slli_epi64(w1, 32));
    const __m512i second =
        _mm512_mask_mov_epi32(w2, kUpper, _mm512_slli_epi64(w3, 32));
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    *front = _mm512_permutex2var_epi64(first, low, second);
    *back = _mm512_permutex2var_epi64(first, high, second);
  }
  FEDPLUG_OP void Store(std::uint32_t* to, Register words) {
    _mm512_storeu_si512(to, words);
  }
};

// Numbers that are rounded with these words.
struct Floats {
  static constexpr int kLanes = 16;
  using Register = __m512;
  using Mask = __mmask16;

  FEDPLUG_OP Register Broadcast(float number) { return _mm512_set1_ps(number); }
  FEDPLUG_OP Register Load(const float* from) { return _mm512_loadu_ps(from); }
  FEDPLUG_OP Register Plus(Register a, Register b) {
    return _mm512_add_ps(a, b);
  }
  FEDPLUG_OP Register Minus(Register a, Register b) {
    return _mm512_sub_ps(a, b);
  }
  FEDPLUG_OP Register Times(Register a, Register b) {
    return _mm512_mul_ps(a, b);
  }
  FEDPLUG_OP Register Over(Register a, Register b) {
    return _mm512_div_ps(a, b);
  }
  FEDPLUG_OP Register Floor(Register a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  FEDPLUG_OP Mask Below(Register a, Register b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
  }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return _mm512_mask_mov_ps(b, mask, a);
  }
  // The bits `kept` of the words, and these bits.
  FEDPLUG_OP Register FromWords(Words::Register words, std::uint32_t kept,
                                std::uint32_t bits) {
    constexpr int kAndOr = 0xEA;
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        words, _mm512_set1_epi32(static_cast<int>(kept)),
        _mm512_set1_epi32(static_cast<int>(bits)), kAndOr));
  }
  // The lowest byte of each.
  FEDPLUG_OP void StoreBytes(std::uint8_t* to, Register lanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi32_epi8(_mm512_castps_si512(lanes)));
  }
};

}  // namespace fedplug::simd::avx512

#undef FEDPLUG_OP

#endif  // FEDPLUG_CORE_SIMD_AVX512_H_
