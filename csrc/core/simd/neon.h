// The operations of blocks_vector.cc with NEON: 4 lanes, 2 of double. There are no
// stores past the caches. Clang's loads are macros, so an argument that has a
// comma is in parentheses of its own.
#ifndef FEDPLUG_CORE_SIMD_NEON_H_
#define FEDPLUG_CORE_SIMD_NEON_H_

#include <arm_neon.h>

#include <cstdint>

#include "core/base/floats.h"
#include "core/simd/level.h"
#include "core/simd/packing.h"

namespace fedplug::simd::neon {

struct Lanes32 {
  static constexpr int kLanes = 4;
  using Register = uint32x4_t;
  using Bound = uint32x4_t;
  using Mask = unsigned;
  using Indices = uint32x4_t;

  static inline Register Broadcast(std::uint32_t bits) {
    return vdupq_n_u32(bits);
  }
  static inline Bound BoundOf(std::uint32_t key) { return Broadcast(key); }
  static inline Mask MaskOf(Register lanes) {
    constexpr std::uint32_t kBits[] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(lanes, vld1q_u32(kBits)));
  }
  static inline Mask AtLeast(Register keys, Bound bound) {
    return MaskOf(vcgeq_u32(keys, bound));
  }
  static inline Mask Equals(Register keys, Register others) {
    return MaskOf(vceqq_u32(keys, others));
  }
  static inline Register KeepBelow(Register a, Register keys, Bound bound) {
    return vandq_u32(a, vcltq_u32(keys, bound));
  }
  static inline Register Max(Register a, Register b) { return vmaxq_u32(a, b); }
  static inline std::uint32_t Largest(Register keys) {
    return vmaxvq_u32(keys);
  }
  static inline Register Pack(Register lanes, Mask mask) {
    return vreinterpretq_u32_u8(
        vqtbl1q_u8(vreinterpretq_u8_u32(lanes),
                   vld1q_u8((kPacking<std::uint8_t, kLanes, 4>[mask].data()))));
  }
  static inline void StoreShorts(std::uint16_t* to, Register lanes) {
    vst1_u16(to, vmovn_u32(lanes));
  }
  static inline void StreamShorts(std::uint16_t* to, Register lanes) {
    StoreShorts(to, lanes);
  }
  static inline Indices Iota(std::int32_t first) {
    constexpr std::uint32_t kLane[] = {0, 1, 2, 3};
    return Plus(vld1q_u32(kLane), first);
  }
  static inline Indices Plus(Indices indices, std::int32_t number) {
    return vaddq_u32(indices, Broadcast(static_cast<std::uint32_t>(number)));
  }
  static inline Indices LoadIndices(const std::int32_t* from) {
    return vreinterpretq_u32_s32(vld1q_s32(from));
  }
  static inline void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    vst1q_s32(to, vreinterpretq_s32_u32(Pack(indices, mask)));
  }
};

template <typename T>
struct Vector;

template <>
struct Vector<float> : Lanes32 {
  using Element = float;

  static inline Register Sum(const float* a, const float* b) {
    return vreinterpretq_u32_f32(vaddq_f32(vld1q_f32(a), vld1q_f32(b)));
  }
  static inline Register Load(const float* from) {
    return vreinterpretq_u32_f32(vld1q_f32(from));
  }
  static inline void Store(void* to, Register lanes) {
    vst1q_u8(static_cast<std::uint8_t*>(to), vreinterpretq_u8_u32(lanes));
  }
  static inline void Stream(float* to, Register lanes) { Store(to, lanes); }
  static inline Register Keys(Register lanes) {
    return vandq_u32(lanes, Broadcast(0x7fffffff));
  }
  // As UndoNotes::DistanceOf, for lanes a that are sums.
  static inline Register Distances(Register a, const float* delta,
                                   const float* residual) {
    const float32x4_t guess =
        vsubq_f32(vreinterpretq_f32_u32(a), vld1q_f32(delta));
    return vaddq_u32(vsubq_u32(Load(residual), vreinterpretq_u32_f32(guess)),
                     Broadcast(0x7fff));
  }
  static inline bool AreNear(Register distances, Register keys) {
    return vminvq_u32(vandq_u32(vcltq_u32(distances, Broadcast(0xffff)),
                                vcltq_u32(keys, Broadcast(0x7f800000)))) != 0;
  }
};

template <>
struct Vector<double> {
  static constexpr int kLanes = 2;
  using Element = double;
  using Register = uint64x2_t;
  using Bound = uint64x2_t;
  using Mask = unsigned;
  using Indices = uint32x2_t;

  static inline Register Sum(const double* a, const double* b) {
    return vreinterpretq_u64_f64(vaddq_f64(vld1q_f64(a), vld1q_f64(b)));
  }
  static inline Register Load(const double* from) {
    return vreinterpretq_u64_f64(vld1q_f64(from));
  }
  static inline void Store(void* to, Register lanes) {
    vst1q_u8(static_cast<std::uint8_t*>(to), vreinterpretq_u8_u64(lanes));
  }
  static inline void Stream(double* to, Register lanes) { Store(to, lanes); }
  static inline Register Broadcast(std::uint64_t bits) {
    return vdupq_n_u64(bits);
  }
  static inline Register Keys(Register lanes) {
    return vandq_u64(lanes, Broadcast(0x7fffffffffffffff));
  }
  static inline Register Distances(Register a, const double* delta,
                                   const double* residual) {
    const float64x2_t guess =
        vsubq_f64(vreinterpretq_f64_u64(a), vld1q_f64(delta));
    return vaddq_u64(vsubq_u64(Load(residual), vreinterpretq_u64_f64(guess)),
                     Broadcast(0x7fff));
  }
  static inline bool AreNear(Register distances, Register keys) {
    return MaskOf(vandq_u64(vcltq_u64(distances, Broadcast(0xffff)),
                            vcltq_u64(keys, Broadcast(0x7ff0000000000000)))) ==
           3;
  }
  static inline void StoreShorts(std::uint16_t* to, Register lanes) {
    const uint32x2_t narrow = vmovn_u64(lanes);
    to[0] = static_cast<std::uint16_t>(vget_lane_u32(narrow, 0));
    to[1] = static_cast<std::uint16_t>(vget_lane_u32(narrow, 1));
  }
  static inline void StreamShorts(std::uint16_t* to, Register lanes) {
    StoreShorts(to, lanes);
  }
  static inline Bound BoundOf(std::uint64_t key) { return Broadcast(key); }
  static inline Mask MaskOf(Register lanes) {
    return static_cast<Mask>((vgetq_lane_u64(lanes, 0) & 1) |
                             (vgetq_lane_u64(lanes, 1) & 2));
  }
  static inline Mask AtLeast(Register keys, Bound bound) {
    return MaskOf(vcgeq_u64(keys, bound));
  }
  static inline Mask Equals(Register keys, Register others) {
    return MaskOf(vceqq_u64(keys, others));
  }
  static inline Register KeepBelow(Register a, Register keys, Bound bound) {
    return vandq_u64(a, vcltq_u64(keys, bound));
  }
  static inline Register Max(Register a, Register b) {
    return vbslq_u64(vcgtq_u64(a, b), a, b);
  }
  static inline std::uint64_t Largest(Register keys) {
    return vgetq_lane_u64(Max(keys, vextq_u64(keys, keys, 1)), 0);
  }
  static inline Register Pack(Register lanes, Mask mask) {
    return vreinterpretq_u64_u8(
        vqtbl1q_u8(vreinterpretq_u8_u64(lanes),
                   vld1q_u8((kPacking<std::uint8_t, kLanes, 8>[mask].data()))));
  }
  static inline Indices Iota(std::int32_t first) {
    constexpr std::uint32_t kLane[] = {0, 1};
    return Plus(vld1_u32(kLane), first);
  }
  static inline Indices Plus(Indices indices, std::int32_t number) {
    return vadd_u32(indices, vdup_n_u32(static_cast<std::uint32_t>(number)));
  }
  static inline Indices LoadIndices(const std::int32_t* from) {
    return vreinterpret_u32_s32(vld1_s32(from));
  }
  static inline void StorePacked(std::int32_t* to, Indices indices, Mask mask) {
    vst1_u8(
        reinterpret_cast<std::uint8_t*>(to),
        vtbl1_u8(vreinterpret_u8_u32(indices),
                 vld1_u8((kPacking<std::uint8_t, kLanes, 4>[mask].data()))));
  }
};

}  // namespace fedplug::simd::neon

#endif  // FEDPLUG_CORE_SIMD_NEON_H_
