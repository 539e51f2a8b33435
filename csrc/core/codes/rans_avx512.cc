// Sixteen lanes at a time do what Decoder does for one; then the next words go
// to the lanes that need one, in order.
#include "core/codes/rans_avx512.h"

#if FEDPLUG_SIMD_X86

// GCC 12 warns about its own header (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "core/codes/rans.h"

namespace fedplug::rans {
namespace {

constexpr int kLanes = 16;
constexpr int kWordBits = 16;
constexpr int kWordBytes = 2;

}  // namespace

FEDPLUG_TARGET_AVX512 std::int64_t DecodeGroupsAvx512(
    const std::uint32_t* table, std::int64_t n, const std::uint8_t* end,
    std::uint32_t* states, const std::uint8_t** next, std::uint8_t* symbols) {
  const __m512i residue = _mm512_set1_epi32(kScale - 1);
  const __m512i lowest = _mm512_set1_epi32(kLowest);
  const __m512i one = _mm512_set1_epi32(1);
  __m512i halves[] = {_mm512_loadu_si512(states),
                      _mm512_loadu_si512(states + kLanes)};
  const std::uint8_t* word = *next;
  std::int64_t done = 0;
  while (n - done >= kMostLanes && end - word >= kWordBytes * kMostLanes) {
    for (__m512i& x : halves) {
      const __m512i entry =
          _mm512_i32gather_epi32(_mm512_and_si512(x, residue), table, 4);
      const __m512i frequency =
          _mm512_add_epi32(_mm512_srli_epi32(entry, 8 + kScaleBits), one);
      const __m512i place =
          _mm512_and_si512(_mm512_srli_epi32(entry, 8), residue);
      x = _mm512_add_epi32(
          _mm512_mullo_epi32(frequency, _mm512_srli_epi32(x, kScaleBits)),
          place);
      const __mmask16 is_short = _mm512_cmplt_epu32_mask(x, lowest);
      const __m512i words = _mm512_cvtepu16_epi32(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(word)));
      x = _mm512_mask_or_epi32(x, is_short, _mm512_slli_epi32(x, kWordBits),
                               _mm512_maskz_expand_epi32(is_short, words));
      word += kWordBytes * __builtin_popcount(is_short);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols + done),
                       _mm512_cvtepi32_epi8(entry));
      done += kLanes;
    }
  }
  _mm512_storeu_si512(states, halves[0]);
  _mm512_storeu_si512(states + kLanes, halves[1]);
  *next = word;
  return done;
}

}  // namespace fedplug::rans

#endif  // FEDPLUG_SIMD_X86
