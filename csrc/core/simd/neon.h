// The operations of NEON that vector.h lacks: registers of 16 bytes. There are no stores past the caches.
// Clang's loads are macros, so an argument that has a comma is in parentheses of its own.
#ifndef FEDPLUG_CORE_SIMD_NEON_H_
#define FEDPLUG_CORE_SIMD_NEON_H_

#include <cstdint>

#include "core/simd/packing.h"

namespace fedplug::simd::neon {

// One bit of each lane of a mask, whose lanes are all ones or all zeros.
template <typename Lane, typename Register>
FEDPLUG_OP unsigned MaskOf(Register mask) {
  if constexpr (sizeof(Lane) == 4) {
    constexpr std::uint32_t kBits[] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(uint32x4_t(mask), vld1q_u32(kBits)));
  } else {
    constexpr std::uint64_t kBits[] = {1, 2};
    return static_cast<unsigned>(
        vaddvq_u64(vandq_u64(uint64x2_t(mask), vld1q_u64(kBits))));
  }
}

// The chosen lanes of a register at its front.
template <typename Lane, typename Register>
FEDPLUG_OP Register Packed(Register lanes, unsigned mask) {
  constexpr int kLanes = 16 / sizeof(Lane);
  return Register(vqtbl1q_u8(
      uint8x16_t(lanes),
      vld1q_u8(
          (kPacking<std::uint8_t, kLanes, int{sizeof(Lane)}>[mask].data()))));
}

// The operations of topk/blocks_vector.cc.
template <typename T>
struct Vector : NumberLanes<T, 16> {
  using Base = NumberLanes<T, 16>;
  using Base::kLanes;
  using typename Base::Indices;
  using typename Base::Register;
  using Mask = unsigned;

  FEDPLUG_OP Mask AtLeast(Register keys, Register bound) {
    return MaskOf<T>(keys > bound);
  }
  FEDPLUG_OP Mask Equals(Register a, Register b) { return MaskOf<T>(a == b); }
  FEDPLUG_OP bool AnyNegative(Register lanes) {
    return MaskOf<T>(lanes < 0) != 0;
  }
  FEDPLUG_OP Register Pack(Register lanes, Mask mask) {
    return Packed<T>(lanes, mask);
  }
  FEDPLUG_OP void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    if constexpr (sizeof(T) == 4) {
      Base::Store(to, Pack(indices, mask));
    } else {
      Base::Places::Store(
          to, Indices(vtbl1_u8(
                  uint8x8_t(indices),
                  vld1_u8((kPacking<std::uint8_t, kLanes, 4>[mask].data())))));
    }
  }
  FEDPLUG_OP void StoreShorts(std::uint16_t* to, Register lanes) {
    typedef std::uint16_t Shorts
        __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
    const Shorts shorts = __builtin_convertvector(lanes, Shorts);
    __builtin_memcpy(to, &shorts, sizeof(shorts));
  }
  FEDPLUG_OP void StreamShorts(std::uint16_t* to, Register lanes) {
    StoreShorts(to, lanes);
  }
  FEDPLUG_OP void Stream(T* to, Register lanes) { Base::Store(to, lanes); }
};

// The operations of codes/rans/rans_vector.cc.
struct States : Lanes<std::uint32_t, 16> {
  using Mask = Register;  // all bits of a lane, or none

  class Lookup {
   public:
    Lookup(const std::uint32_t* entries, int /*largest*/) : entries_(entries) {}

    Register Of(const std::uint8_t* symbols) const {
      return Register{entries_[symbols[0]], entries_[symbols[1]],
                      entries_[symbols[2]], entries_[symbols[3]]};
    }

   private:
    const std::uint32_t* entries_;
  };

  FEDPLUG_OP Mask AtLeast(Register a, Register b) { return Mask(a >= b); }
  FEDPLUG_OP Register Choose(Mask mask, Register a, Register b) {
    return (a & mask) | (b & ~mask);
  }
  FEDPLUG_OP Register PlusWhere(Mask mask, Register a, Register b) {
    return a + (mask & b);
  }
  // Stores the lower halves of the chosen lanes up to `end`.
  FEDPLUG_OP std::uint16_t* StoreBefore(std::uint16_t* end, Register a,
                                        Mask mask) {
    const unsigned chosen = MaskOf<std::uint32_t>(mask);
    const auto count = __builtin_popcount(chosen);
    // The chosen halves of lanes to the front, and from there to the end.
    const uint16x4_t packed =
        vmovn_u32(uint32x4_t(Packed<std::uint32_t>(a, chosen)));
    const uint8x8_t shift = vdup_n_u8(static_cast<std::uint8_t>(2 * count));
    constexpr std::uint8_t kIota[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint8x8_t last =
        vand_u8(vadd_u8(vld1_u8(kIota), shift), vdup_n_u8(7));
    vst1_u16(end - kLanes, uint16x4_t(vtbl1_u8(uint8x8_t(packed), last)));
    return end - count;
  }
};

}  // namespace fedplug::simd::neon

#endif  // FEDPLUG_CORE_SIMD_NEON_H_
