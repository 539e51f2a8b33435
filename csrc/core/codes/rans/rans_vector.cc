// The inner loops of rans::Encoder and rans::Decoder, written over the States of simd/avx512.h, avx2.h or
// neon.h, and compiled for each.
//
// A quotient of integers is that of their floats, rounded down, or one less:
// a state is below f * 2^20 when it is divided by f, so that the quotient is
// below 2^20, and the reciprocal is too small by 2^-21 of itself, which is more
// than three roundings can add, each 2^-23 at most, and loses less than one.
#include <cstdint>

#include "core/codes/rans/rans.h"
#include "core/simd/vector.h"

#ifdef FEDPLUG_VECTOR

namespace fedplug::rans {
namespace {

using V = FEDPLUG_VECTOR::States;
constexpr int kLanes = V::kLanes;
constexpr int kWordBits = 16;
constexpr float kBelowOne = 1.0f - 1.0f / (1 << 21);

typedef float Numbers __attribute__((vector_size(sizeof(V::Register))));
typedef std::int32_t Whole __attribute__((vector_size(sizeof(V::Register))));

FEDPLUG_TARGET std::int64_t EncodeGroups(
    const EncoderTable& table, const std::uint8_t* symbols, std::int64_t n,
    const std::uint16_t* begin, std::uint32_t* states, std::uint16_t** next) {
  using Register = V::Register;
  constexpr int kRegisters = kMostLanes / kLanes;
  const V::Lookup lookup(table.entries.data(), table.largest);
  Register x[kRegisters];
  for (int r = 0; r < kRegisters; ++r) x[r] = V::Load(states + r * kLanes);
  std::uint16_t* word = *next;
  std::int64_t left = n;
  for (; left >= kMostLanes && word - begin >= kMostLanes; left -= kMostLanes) {
    const std::uint8_t* const group = symbols + left - kMostLanes;
    for (int r = kRegisters - 1; r >= 0; --r) {
      const Register entry = lookup.Of(group + r * kLanes);
      const Register frequency = (entry & (kScale - 1)) + 1;
      // Signed, because not every level converts unsigned numbers at once.
      const Numbers share =
          kBelowOne / __builtin_convertvector(Whole(frequency), Numbers);
      const V::Mask full = V::AtLeast(x[r] >> (32 - kScaleBits), frequency);
      word = V::StoreBefore(word, x[r], full);
      x[r] = V::Choose(full, x[r] >> kWordBits, x[r]);
      const Numbers exact = __builtin_convertvector(x[r], Numbers) * share;
      const auto quotient = Register(__builtin_convertvector(exact, Whole));
      const Register rest = x[r] - quotient * frequency;
      const Register coded = quotient * kScale + (entry >> kScaleBits) + rest;
      x[r] =
          V::PlusWhere(V::AtLeast(rest, frequency), coded, kScale - frequency);
    }
  }
  for (int r = 0; r < kRegisters; ++r) V::Store(states + r * kLanes, x[r]);
  *next = word;
  return n - left;
}

}  // namespace

template <SimdLevel kLevel>
EncodeLoop* VectorEncodeLoop() {
  return EncodeGroups;
}
template EncodeLoop* VectorEncodeLoop<FEDPLUG_VECTOR_LEVEL>();

#if FEDPLUG_COMPILED_LEVEL == 512
constexpr int kWordBytes = 2;

// Distributes the next words to the lanes that need one, in order.
FEDPLUG_TARGET std::int64_t DecodeGroupsAvx512(
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

#endif

}  // namespace fedplug::rans

#endif  // FEDPLUG_VECTOR
