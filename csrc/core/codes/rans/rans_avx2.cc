// rans::Encoder for eight lanes at a time.
#include "core/codes/rans/rans.h"

#if FEDPLUG_SIMD_X86

#include <immintrin.h>

#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX2
#include "core/codes/rans/encode_loop.h"
#include "core/simd/packing.h"

#define FEDPLUG_OP FEDPLUG_TARGET_AVX2 static inline

namespace fedplug::rans {
namespace {

// The operations of encode_loop.h.
struct Lanes {
  static constexpr int kLanes = 8;
  using Register = __m256i;
  using Mask = __m256i;  // all bits of a lane, or none

  class Lookup {
   public:
    explicit Lookup(const EncoderTable& table)
        : entries_(reinterpret_cast<const int*>(table.entries.data())) {}

    FEDPLUG_TARGET_AVX2 Register Of(const std::uint8_t* symbols) const {
      const __m256i places = _mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols)));
      return _mm256_i32gather_epi32(entries_, places, 4);
    }

   private:
    const int* entries_;
  };

  FEDPLUG_OP Register Broadcast(std::uint32_t number) {
    return _mm256_set1_epi32(static_cast<int>(number));
  }
  FEDPLUG_OP Register Load(const std::uint32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FEDPLUG_OP void Store(std::uint32_t* to, Register a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a);
  }
  FEDPLUG_OP Register And(Register a, Register b) {
    return _mm256_and_si256(a, b);
  }
  FEDPLUG_OP Register Plus(Register a, Register b) {
    return _mm256_add_epi32(a, b);
  }
  FEDPLUG_OP Register Minus(Register a, Register b) {
    return _mm256_sub_epi32(a, b);
  }
  FEDPLUG_OP Register Times(Register a, Register b) {
    return _mm256_mullo_epi32(a, b);
  }
  template <int kBits>
  FEDPLUG_OP Register Shifted(Register a) {
    return _mm256_srli_epi32(a, kBits);
  }
  FEDPLUG_OP Mask AtLeast(Register a, Register b) {
    return _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a);
  }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return _mm256_blendv_epi8(b, a, mask);
  }
  FEDPLUG_OP Register PlusWhere(Mask mask, Register a, Register b) {
    return Plus(a, And(mask, b));
  }
  FEDPLUG_OP __m256 Divide(float number, Register by) {
    return _mm256_div_ps(_mm256_set1_ps(number), _mm256_cvtepi32_ps(by));
  }
  // The float of a number of 32 bits is that of its upper half, which is exact,
  // and its lower half, rounded once.
  FEDPLUG_OP Register Product(Register a, __m256 share) {
    const __m256 upper = _mm256_mul_ps(_mm256_cvtepi32_ps(Shifted<16>(a)),
                                       _mm256_set1_ps(65536.0f));
    const __m256 lower = _mm256_cvtepi32_ps(And(a, Broadcast(0xffff)));
    return _mm256_cvttps_epi32(
        _mm256_mul_ps(_mm256_add_ps(upper, lower), share));
  }
  FEDPLUG_OP std::uint16_t* StoreBefore(std::uint16_t* end, Register a,
                                        Mask mask) {
    const auto chosen =
        static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
    const int count = __builtin_popcount(chosen);
    const __m256i packed = _mm256_permutevar8x32_epi32(
        a, Load(simd::kPacking<std::uint32_t, kLanes, 1>[chosen].data()));
    const __m256i last = _mm256_permutevar8x32_epi32(
        And(packed, Broadcast(0xffff)),
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                         _mm256_set1_epi32(count)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(end - kLanes),
                     _mm256_castsi256_si128(_mm256_permute4x64_epi64(
                         _mm256_packus_epi32(last, last), 0x08)));
    return end - count;
  }
};

}  // namespace

FEDPLUG_TARGET_AVX2 std::int64_t EncodeGroupsAvx2(
    const EncoderTable& table, const std::uint8_t* symbols, std::int64_t n,
    const std::uint16_t* begin, std::uint32_t* states, std::uint16_t** next) {
  return EncodeGroups<Lanes>(table, symbols, n, begin, states, next);
}

}  // namespace fedplug::rans

#undef FEDPLUG_OP

#endif  // FEDPLUG_SIMD_X86
