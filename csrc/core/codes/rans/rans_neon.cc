// rans::Encoder for four lanes at a time.
#include "core/codes/rans/rans.h"

#if FEDPLUG_SIMD_NEON

#include <arm_neon.h>

#define FEDPLUG_TARGET
#include "core/codes/rans/encode_loop.h"
#include "core/simd/packing.h"

namespace fedplug::rans {
namespace {

// The operations of encode_loop.h.
struct Lanes {
  static constexpr int kLanes = 4;
  using Register = uint32x4_t;
  using Mask = uint32x4_t;  // all bits of a lane, or none

  class Lookup {
   public:
    explicit Lookup(const EncoderTable& table)
        : entries_(table.entries.data()) {}

    Register Of(const std::uint8_t* symbols) const {
      const std::uint32_t found[] = {entries_[symbols[0]], entries_[symbols[1]],
                                     entries_[symbols[2]],
                                     entries_[symbols[3]]};
      return vld1q_u32(found);
    }

   private:
    const std::uint32_t* entries_;
  };

  static inline Register Broadcast(std::uint32_t number) {
    return vdupq_n_u32(number);
  }
  static inline Register Load(const std::uint32_t* from) {
    return vld1q_u32(from);
  }
  static inline void Store(std::uint32_t* to, Register a) { vst1q_u32(to, a); }
  static inline Register And(Register a, Register b) { return vandq_u32(a, b); }
  static inline Register Plus(Register a, Register b) {
    return vaddq_u32(a, b);
  }
  static inline Register Minus(Register a, Register b) {
    return vsubq_u32(a, b);
  }
  static inline Register Times(Register a, Register b) {
    return vmulq_u32(a, b);
  }
  template <int kBits>
  static inline Register Shifted(Register a) {
    return vshrq_n_u32(a, kBits);
  }
  static inline Mask AtLeast(Register a, Register b) { return vcgeq_u32(a, b); }
  static inline Register Choose(Mask mask, Register a, Register b) {
    return vbslq_u32(mask, a, b);
  }
  static inline Register PlusWhere(Mask mask, Register a, Register b) {
    return Plus(a, And(mask, b));
  }
  static inline float32x4_t Divide(float number, Register by) {
    return vdivq_f32(vdupq_n_f32(number), vcvtq_f32_u32(by));
  }
  static inline Register Product(Register a, float32x4_t share) {
    return vcvtq_u32_f32(vmulq_f32(vcvtq_f32_u32(a), share));
  }
  static inline std::uint16_t* StoreBefore(std::uint16_t* end, Register a,
                                           Mask mask) {
    constexpr std::uint32_t kBits[] = {1, 2, 4, 8};
    const unsigned chosen = vaddvq_u32(vandq_u32(mask, vld1q_u32(kBits)));
    const auto count = __builtin_popcount(chosen);
    // The chosen halves of lanes to the front, and from there to the end.
    const uint8x16_t places =
        vld1q_u8((simd::kPacking<std::uint8_t, kLanes, 4>[chosen].data()));
    const uint16x4_t packed = vmovn_u32(
        vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(a), places)));
    const uint8x8_t shift = vdup_n_u8(static_cast<std::uint8_t>(2 * count));
    constexpr std::uint8_t kIota[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint8x8_t last =
        vand_u8(vadd_u8(vld1_u8(kIota), shift), vdup_n_u8(7));
    vst1_u16(end - kLanes,
             vreinterpret_u16_u8(vtbl1_u8(vreinterpret_u8_u16(packed), last)));
    return end - count;
  }
};

}  // namespace

std::int64_t EncodeGroupsNeon(const EncoderTable& table,
                              const std::uint8_t* symbols, std::int64_t n,
                              const std::uint16_t* begin, std::uint32_t* states,
                              std::uint16_t** next) {
  return EncodeGroups<Lanes>(table, symbols, n, begin, states, next);
}

}  // namespace fedplug::rans

#endif  // FEDPLUG_SIMD_NEON
