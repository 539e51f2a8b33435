// Encoder and Decoder for sixteen lanes at a time. The decoder distributes the
// next words to the lanes that need one, in order.
#include "core/codes/rans/rans.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx512.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX512
#include "core/codes/rans/encode_loop.h"

#define FEDPLUG_OP FEDPLUG_TARGET_AVX512 static inline

namespace fedplug::rans {
namespace {

constexpr int kLanes = 16;
constexpr int kWordBits = 16;
constexpr int kWordBytes = 2;

// The operations of encode_loop.h.
struct Lanes {
  static constexpr int kLanes = 16;
  using Register = __m512i;
  using Mask = __mmask16;

  // The table of few symbols is in a register.
  class Lookup {
   public:
    FEDPLUG_TARGET_AVX512 explicit Lookup(const EncoderTable& table)
        : entries_(table.entries.data()),
          first_(Lanes::Load(entries_)),
          few_(table.largest < kLanes) {}

    FEDPLUG_TARGET_AVX512 Register Of(const std::uint8_t* symbols) const {
      const __m512i places = _mm512_cvtepu8_epi32(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols)));
      return few_ ? _mm512_permutexvar_epi32(places, first_)
                  : _mm512_i32gather_epi32(places, entries_, 4);
    }

   private:
    const std::uint32_t* entries_;
    __m512i first_;
    bool few_;
  };

  FEDPLUG_OP Register Broadcast(std::uint32_t number) {
    return _mm512_set1_epi32(static_cast<int>(number));
  }
  FEDPLUG_OP Register Load(const std::uint32_t* from) {
    return _mm512_loadu_si512(from);
  }
  FEDPLUG_OP void Store(std::uint32_t* to, Register a) {
    _mm512_storeu_si512(to, a);
  }
  FEDPLUG_OP Register And(Register a, Register b) {
    return _mm512_and_si512(a, b);
  }
  FEDPLUG_OP Register Plus(Register a, Register b) {
    return _mm512_add_epi32(a, b);
  }
  FEDPLUG_OP Register Minus(Register a, Register b) {
    return _mm512_sub_epi32(a, b);
  }
  FEDPLUG_OP Register Times(Register a, Register b) {
    return _mm512_mullo_epi32(a, b);
  }
  template <int kBits>
  FEDPLUG_OP Register Shifted(Register a) {
    return _mm512_srli_epi32(a, kBits);
  }
  FEDPLUG_OP Mask AtLeast(Register a, Register b) {
    return _mm512_cmpge_epu32_mask(a, b);
  }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return _mm512_mask_mov_epi32(b, mask, a);
  }
  FEDPLUG_OP Register PlusWhere(Mask mask, Register a, Register b) {
    return _mm512_mask_add_epi32(a, mask, a, b);
  }
  FEDPLUG_OP __m512 Divide(float number, Register by) {
    return _mm512_div_ps(_mm512_set1_ps(number), _mm512_cvtepi32_ps(by));
  }
  FEDPLUG_OP Register Product(Register a, __m512 share) {
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_cvtepu32_ps(a), share));
  }
  FEDPLUG_OP std::uint16_t* StoreBefore(std::uint16_t* end, Register a,
                                        Mask mask) {
    const int count = __builtin_popcount(mask);
    const __m512i iota =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i last = _mm512_permutexvar_epi32(
        _mm512_add_epi32(iota, _mm512_set1_epi32(count)),
        _mm512_maskz_compress_epi32(mask, a));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(end - kLanes),
                        _mm512_cvtepi32_epi16(last));
    return end - count;
  }
};

}  // namespace

FEDPLUG_TARGET_AVX512 std::int64_t EncodeGroupsAvx512(
    const EncoderTable& table, const std::uint8_t* symbols, std::int64_t n,
    const std::uint16_t* begin, std::uint32_t* states, std::uint16_t** next) {
  return EncodeGroups<Lanes>(table, symbols, n, begin, states, next);
}

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

#undef FEDPLUG_OP

#endif  // FEDPLUG_SIMD_X86
