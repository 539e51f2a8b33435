// The operations of AVX2 that vector.h, which includes this file, lacks: registers of 32 bytes.
#ifndef FEDPLUG_CORE_SIMD_AVX2_H_
#define FEDPLUG_CORE_SIMD_AVX2_H_

#include <cstdint>

#include "core/simd/packing.h"

namespace fedplug::simd::avx2 {

// The chosen units of a register, of 4 bytes, at its front.
template <int kLanes, int kUnits>
FEDPLUG_OP __m256i Packed(__m256i lanes, unsigned mask) {
  return _mm256_permutevar8x32_epi32(
      lanes, _mm256_load_si256(reinterpret_cast<const __m256i*>(
                 &kPacking<std::int32_t, kLanes, kUnits>[mask])));
}

// REQUIRES: the lanes of 4 bytes are below 2^16
FEDPLUG_OP __m128i ToShorts(__m256i lanes) {
  return _mm256_castsi256_si128(
      _mm256_permute4x64_epi64(_mm256_packus_epi32(lanes, lanes), 0x08));
}

// The operations of topk/blocks_vector.cc.
template <typename T>
struct Vector : NumberLanes<T, 32> {
  using Base = NumberLanes<T, 32>;
  using Base::kLanes;
  using typename Base::Indices;
  using typename Base::Register;
  using Mask = unsigned;
  static constexpr bool kFloat = sizeof(T) == 4;

  // The top bits of lanes.
  FEDPLUG_OP Mask MaskOf(Register lanes) {
    return static_cast<Mask>(kFloat ? _mm256_movemask_ps(__m256(lanes))
                                    : _mm256_movemask_pd(__m256d(lanes)));
  }
  FEDPLUG_OP Mask AtLeast(Register keys, Register bound) {
    return MaskOf(keys > bound);
  }
  FEDPLUG_OP Mask Equals(Register a, Register b) { return MaskOf(a == b); }
  FEDPLUG_OP bool AnyNegative(Register lanes) { return MaskOf(lanes) != 0; }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    return Register(Packed<kLanes, sizeof(T) / 4>(__m256i(lanes), mask));
  }
  FEDPLUG_OP void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    if constexpr (kFloat) {
      Base::Store(to, Pack(indices, mask));
    } else {
      const __m128i places = _mm_load_si128(reinterpret_cast<const __m128i*>(
          &kPacking<std::int32_t, kLanes, 1>[mask]));
      Base::Places::Store(to,
                          Indices(_mm_permutevar_ps(__m128(indices), places)));
    }
  }
  // REQUIRES: the lanes are below 2^16
  FEDPLUG_OP __m128i Narrow(Register lanes) {
    if constexpr (kFloat) {
      return ToShorts(__m256i(lanes));
    } else {
      return ToShorts(Packed<8, 1>(__m256i(lanes), 0x55));
    }
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    const __m128i shorts = Narrow(lanes);
    __builtin_memcpy(to, &shorts, kLanes * sizeof(*to));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    if constexpr (kFloat) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), Narrow(lanes));
    } else {
      _mm_stream_si64(reinterpret_cast<long long*>(to),
                      _mm_cvtsi128_si64(Narrow(lanes)));
    }
  }
  FEDPLUG_OP void Stream(T* to, Register lanes) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __m256i(lanes));
  }
};

// The operations of philox/words_vector.cc: a word of a draw to a 64-bit lane.
struct Words : Lanes<std::uint64_t, 32> {
  static constexpr int kSideBySide = 4;

  FEDPLUG_OP Register Multiply(Register a, Register b) {
    return Register(_mm256_mul_epu32(__m256i(a), __m256i(b)));
  }
  FEDPLUG_OP Register Xor(Register a, Register b, Register c) {
    return a ^ b ^ c;
  }
  // The four words of each draw, one draw after the other.
  FEDPLUG_OP void InOrder(Register w0, Register w1, Register w2, Register w3,
                          Register* front, Register* back) {
    constexpr int kUpper = 0xAA;
    const __m256i first =
        _mm256_blend_epi32(__m256i(w0), __m256i(w1 << 32), kUpper);
    const __m256i second =
        _mm256_blend_epi32(__m256i(w2), __m256i(w3 << 32), kUpper);
    const __m256i even = _mm256_unpacklo_epi64(first, second);
    const __m256i odd = _mm256_unpackhi_epi64(first, second);
    *front = Register(_mm256_permute2x128_si256(even, odd, 0x20));
    *back = Register(_mm256_permute2x128_si256(even, odd, 0x31));
  }
};

// Numbers that are rounded with these words.
struct Floats : Lanes<float, 32> {
  FEDPLUG_OP Register Floor(Register a) { return _mm256_floor_ps(a); }
  // The lowest byte of each.
  FEDPLUG_OP void StoreBytes(std::uint8_t* to, Register lanes) {
    const __m256i bytes =
        _mm256_shuffle_epi8(__m256i(lanes), _mm256_set1_epi32(0x0c080400));
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes),
                                            _mm256_extracti128_si256(bytes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), both);
  }
};

// The operations of codes/rans/rans_vector.cc.
struct States : Lanes<std::uint32_t, 32> {
  using Mask = Register;  // all bits of a lane, or none

  class Lookup {
   public:
    Lookup(const std::uint32_t* entries, int /*largest*/)
        : entries_(reinterpret_cast<const int*>(entries)) {}

    FEDPLUG_TARGET Register Of(const std::uint8_t* symbols) const {
      const __m256i places = _mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols)));
      return Register(_mm256_i32gather_epi32(entries_, places, 4));
    }

   private:
    const int* entries_;
  };

  FEDPLUG_OP Mask AtLeast(Register a, Register b) { return Mask(a >= b); }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return Register(_mm256_blendv_epi8(__m256i(b), __m256i(a), __m256i(mask)));
  }
  FEDPLUG_OP Register PlusWhere(Mask mask, Register a, Register b) {
    return a + (mask & b);
  }
  // Stores the lower halves of the chosen lanes up to `end`.
  FEDPLUG_OP std::uint16_t* StoreBefore(std::uint16_t* end, Register a,
                                        Mask mask) {
    const auto chosen = static_cast<unsigned>(_mm256_movemask_ps(__m256(mask)));
    const int count = __builtin_popcount(chosen);
    const auto packed = Register(Packed<kLanes, 1>(__m256i(a), chosen));
    const __m256i last = _mm256_permutevar8x32_epi32(
        __m256i(packed & 0xffff),
        __m256i(Iota(static_cast<std::uint32_t>(count))));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(end - kLanes), ToShorts(last));
    return end - count;
  }
};

}  // namespace fedplug::simd::avx2

#endif  // FEDPLUG_CORE_SIMD_AVX2_H_
