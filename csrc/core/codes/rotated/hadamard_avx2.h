// Two loops of hadamard_loops.h for float with AVX2, which compilers vectorise
// badly.
#ifndef FEDPLUG_CORE_CODES_ROTATED_HADAMARD_AVX2_H_
#define FEDPLUG_CORE_CODES_ROTATED_HADAMARD_AVX2_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "core/codes/rotated/hadamard_loops.h"

namespace fedplug::hadamard_loops::avx2 {

inline constexpr std::int64_t kLanes = 8;

// The signs of the elements whose number has this bit.
FEDPLUG_TARGET_AVX2 inline __m256 SignsOf(int half) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i minus = _mm256_cmpgt_epi32(
      _mm256_and_si256(lane, _mm256_set1_epi32(half)), _mm256_setzero_si256());
  return _mm256_castsi256_ps(_mm256_slli_epi32(minus, 31));
}

// Four stages among kGroup neighbours.
FEDPLUG_TARGET_AVX2 inline void WithinGroups(float* x, std::int64_t n) {
  const __m256 signs1 = SignsOf(1);
  const __m256 signs2 = SignsOf(2);
  const __m256 signs4 = SignsOf(4);
  for (std::int64_t i = 0; i < n; i += kGroup) {
    __m256 halves[2];
    for (int k = 0; k < 2; ++k) {
      __m256 y = _mm256_loadu_ps(x + i + k * kLanes);
      y = _mm256_add_ps(_mm256_permute_ps(y, 0xB1), _mm256_xor_ps(y, signs1));
      y = _mm256_add_ps(_mm256_permute_ps(y, 0x4E), _mm256_xor_ps(y, signs2));
      halves[k] = _mm256_add_ps(_mm256_permute2f128_ps(y, y, 1),
                                _mm256_xor_ps(y, signs4));
    }
    _mm256_storeu_ps(x + i, _mm256_add_ps(halves[0], halves[1]));
    _mm256_storeu_ps(x + i + kLanes, _mm256_sub_ps(halves[0], halves[1]));
  }
}

// As the plain loop of eight levels, but finds a place among the borders in
// three steps.
// REQUIRES: n is a multiple of kLanes
FEDPLUG_TARGET_AVX2 inline void QuantizeEight(float* x, std::int64_t n,
                                              float divisor,
                                              const Levels<float>& levels,
                                              std::uint8_t* codes) {
  constexpr char kNone = -1;
  const __m256 level = _mm256_loadu_ps(levels.positive.data());
  const __m256i borders =
      _mm256_castps_si256(_mm256_loadu_ps(levels.borders.data()));
  const __m256i third =
      _mm256_permutevar8x32_epi32(borders, _mm256_set1_epi32(3));
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i two = _mm256_set1_epi32(2);
  const __m256i four = _mm256_set1_epi32(4);
  const __m256i middle = _mm256_set1_epi32(8);
  const __m256i sign =
      _mm256_set1_epi32(std::numeric_limits<std::int32_t>::min());
  const __m256i low_bytes = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, kNone, kNone, kNone, kNone, kNone, kNone,
                    kNone, kNone, kNone, kNone, kNone, kNone));
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const __m256 y = _mm256_loadu_ps(x + i);
    const __m256i bits =
        _mm256_castps_si256(_mm256_div_ps(y, _mm256_set1_ps(divisor)));
    const __m256i negative = _mm256_cmpgt_epi32(one, bits);
    const __m256i magnitude =
        _mm256_sub_epi32(_mm256_andnot_si256(sign, bits), negative);
    __m256i below =
        _mm256_and_si256(_mm256_cmpgt_epi32(magnitude, third), four);
    const __m256i second =
        _mm256_permutevar8x32_epi32(borders, _mm256_add_epi32(below, one));
    below = _mm256_add_epi32(
        below, _mm256_and_si256(_mm256_cmpgt_epi32(magnitude, second), two));
    const __m256i first = _mm256_permutevar8x32_epi32(borders, below);
    below = _mm256_sub_epi32(below, _mm256_cmpgt_epi32(magnitude, first));
    const __m256 nearest =
        _mm256_xor_ps(_mm256_permutevar8x32_ps(level, below),
                      _mm256_castsi256_ps(_mm256_and_si256(negative, sign)));
    _mm256_storeu_ps(x + i, _mm256_mul_ps(y, nearest));
    const __m256i code = _mm256_shuffle_epi8(
        _mm256_add_epi32(middle, _mm256_xor_si256(below, negative)), low_bytes);
    const std::int32_t left = _mm256_extract_epi32(code, 0);
    const std::int32_t right = _mm256_extract_epi32(code, 4);
    std::memcpy(codes + i, &left, sizeof(left));
    std::memcpy(codes + i + sizeof(left), &right, sizeof(right));
  }
}

}  // namespace fedplug::hadamard_loops::avx2

#endif  // FEDPLUG_CORE_CODES_ROTATED_HADAMARD_AVX2_H_
