// The operations of AVX-512 that vector.h lacks: registers of 64 bytes. Chosen lanes are packed in a register
// and stored whole: a compressing store to memory is microcoded on some processors.
#ifndef FEDPLUG_CORE_SIMD_AVX512_H_
#define FEDPLUG_CORE_SIMD_AVX512_H_

#include <cstdint>
#include <type_traits>

namespace fedplug::simd::avx512 {

// The operations of topk/blocks_vector.cc.
template <typename T>
struct Vector : NumberLanes<T, 64> {
  using Base = NumberLanes<T, 64>;
  using Base::kLanes;
  using typename Base::Indices;
  using typename Base::Register;
  static constexpr bool kFloat = sizeof(T) == 4;
  using Mask = std::conditional_t<kFloat, __mmask16, __mmask8>;

  FEDPLUG_OP Mask AtLeast(Register keys, Register bound) {
    if constexpr (kFloat) {
      return _mm512_cmpgt_epi32_mask(__m512i(keys), __m512i(bound));
    } else {
      return _mm512_cmpgt_epi64_mask(__m512i(keys), __m512i(bound));
    }
  }
  FEDPLUG_OP Mask Equals(Register a, Register b) {
    if constexpr (kFloat) {
      return _mm512_cmpeq_epi32_mask(__m512i(a), __m512i(b));
    } else {
      return _mm512_cmpeq_epi64_mask(__m512i(a), __m512i(b));
    }
  }
  FEDPLUG_OP bool AnyNegative(Register lanes) {
    return AtLeast(Register{}, lanes) != 0;
  }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    if constexpr (kFloat) {
      return Register(_mm512_maskz_compress_epi32(mask, __m512i(lanes)));
    } else {
      return Register(_mm512_maskz_compress_epi64(mask, __m512i(lanes)));
    }
  }
  FEDPLUG_OP void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    if constexpr (kFloat) {
      Base::Store(to, Pack(indices, mask));
    } else {
      const __m512i packed = _mm512_maskz_compress_epi32(
          mask, _mm512_castsi256_si512(__m256i(indices)));
      Base::Places::Store(to, Indices(_mm512_castsi512_si256(packed)));
    }
  }
  // REQUIRES: the lanes are below 2^16
  FEDPLUG_OP auto Narrow(Register lanes) {
    if constexpr (kFloat) {
      return _mm512_cvtepi32_epi16(__m512i(lanes));
    } else {
      return _mm512_cvtepi64_epi16(__m512i(lanes));
    }
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    const auto shorts = Narrow(lanes);
    __builtin_memcpy(to, &shorts, sizeof(shorts));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    if constexpr (kFloat) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), Narrow(lanes));
    } else {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), Narrow(lanes));
    }
  }
  FEDPLUG_OP void Stream(T* to, Register lanes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), __m512i(lanes));
  }
};

// The operations of philox/words_vector.cc: a word of a draw to a 64-bit lane.
struct Words : Lanes<std::uint64_t, 64> {
  static constexpr int kSideBySide = 4;

  FEDPLUG_OP Register Multiply(Register a, Register b) {
    return Register(_mm512_mul_epu32(__m512i(a), __m512i(b)));
  }
  FEDPLUG_OP Register Xor(Register a, Register b, Register c) {
    return Register(
        _mm512_ternarylogic_epi64(__m512i(a), __m512i(b), __m512i(c), 0x96));
  }
  // The four words of each draw, one draw after the other.
  FEDPLUG_OP void InOrder(Register w0, Register w1, Register w2, Register w3,
                          Register* front, Register* back) {
    constexpr __mmask16 kUpper = 0xAAAA;
    const __m512i first =
        _mm512_mask_mov_epi32(__m512i(w0), kUpper, __m512i(w1 << 32));
    const __m512i second =
        _mm512_mask_mov_epi32(__m512i(w2), kUpper, __m512i(w3 << 32));
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    *front = Register(_mm512_permutex2var_epi64(first, low, second));
    *back = Register(_mm512_permutex2var_epi64(first, high, second));
  }
};

// Numbers that are rounded with these words.
struct Floats : Lanes<float, 64> {
  FEDPLUG_OP Register Floor(Register a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  // The lowest byte of each.
  FEDPLUG_OP void StoreBytes(std::uint8_t* to, Register lanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi32_epi8(__m512i(lanes)));
  }
};

// The operations of codes/rans/rans_vector.cc.
struct States : Lanes<std::uint32_t, 64> {
  using Mask = __mmask16;

  // The table of few symbols is in a register.
  class Lookup {
   public:
    FEDPLUG_TARGET Lookup(const std::uint32_t* entries, int largest)
        : entries_(entries), first_(Load(entries)), few_(largest < kLanes) {}

    FEDPLUG_TARGET Register Of(const std::uint8_t* symbols) const {
      const __m512i places = _mm512_cvtepu8_epi32(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols)));
      return Register(few_ ? _mm512_permutexvar_epi32(places, __m512i(first_))
                           : _mm512_i32gather_epi32(places, entries_, 4));
    }

   private:
    const std::uint32_t* entries_;
    Register first_;
    bool few_;
  };

  FEDPLUG_OP Mask AtLeast(Register a, Register b) {
    return _mm512_cmpge_epu32_mask(__m512i(a), __m512i(b));
  }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return Register(_mm512_mask_mov_epi32(__m512i(b), mask, __m512i(a)));
  }
  FEDPLUG_OP Register PlusWhere(Mask mask, Register a, Register b) {
    return Choose(mask, a + b, a);
  }
  // Stores the lower halves of the chosen lanes up to `end`.
  FEDPLUG_OP std::uint16_t* StoreBefore(std::uint16_t* end, Register a,
                                        Mask mask) {
    const int count = __builtin_popcount(mask);
    const __m512i last = _mm512_permutexvar_epi32(
        __m512i(Iota(static_cast<std::uint32_t>(count))),
        _mm512_maskz_compress_epi32(mask, __m512i(a)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(end - kLanes),
                        _mm512_cvtepi32_epi16(last));
    return end - count;
  }
};

}  // namespace fedplug::simd::avx512

#endif  // FEDPLUG_CORE_SIMD_AVX512_H_
