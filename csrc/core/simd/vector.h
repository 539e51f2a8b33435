// The vectors of one SIMD level. CMake compiles each *_vector.cc once per level and defines
// FEDPLUG_COMPILED_LEVEL: 1 for NEON, 2 for AVX2, 512 for AVX-512. FEDPLUG_VECTOR is the namespace of the
// level's operations, and FEDPLUG_TARGET marks functions for its instruction set. Both are undefined on
// other processors, and in other sources, which get the intrinsics of the processor.
#ifndef FEDPLUG_CORE_SIMD_VECTOR_H_
#define FEDPLUG_CORE_SIMD_VECTOR_H_

#include <cstdint>
#include <type_traits>

#include "core/base/floats.h"
#include "core/simd/level.h"

#if FEDPLUG_SIMD_X86
// GCC 12 warns about its own header (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#elif FEDPLUG_SIMD_NEON
#include <arm_neon.h>
#endif

#if FEDPLUG_SIMD_X86 && FEDPLUG_COMPILED_LEVEL == 2
#define FEDPLUG_VECTOR simd::avx2
#define FEDPLUG_VECTOR_LEVEL SimdLevel::kAvx2
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX2
#elif FEDPLUG_SIMD_X86 && FEDPLUG_COMPILED_LEVEL == 512
#define FEDPLUG_VECTOR simd::avx512
#define FEDPLUG_VECTOR_LEVEL SimdLevel::kAvx512
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX512
#elif FEDPLUG_SIMD_NEON && FEDPLUG_COMPILED_LEVEL == 1
#define FEDPLUG_VECTOR simd::neon
#define FEDPLUG_VECTOR_LEVEL SimdLevel::kNeon
#define FEDPLUG_TARGET
#endif

#ifdef FEDPLUG_VECTOR

#define FEDPLUG_OP FEDPLUG_TARGET static inline

// Operations that GCC and Clang have for vectors of any length. The level's own follow in its header. They
// lie in its namespace, because each level compiles them for its instruction set.
namespace fedplug::FEDPLUG_VECTOR {

template <typename Lane, int kBytes>
struct Lanes {
  static constexpr int kLanes = kBytes / sizeof(Lane);
  typedef Lane Register __attribute__((vector_size(kBytes)));

  FEDPLUG_OP Register Broadcast(Lane lane) { return lane - Register{}; }
  FEDPLUG_OP Register Load(const void* from) {
    Register lanes;
    __builtin_memcpy(&lanes, from, kBytes);
    return lanes;
  }
  FEDPLUG_OP void Store(void* to, Register lanes) {
    __builtin_memcpy(to, &lanes, kBytes);
  }
  FEDPLUG_OP Register Iota(Lane first) {
    Register lanes{};
    for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<Lane>(i);
    return lanes + first;
  }
};

// The bits of numbers, or their keys. These have no top bit, so that signed comparisons do. A register of
// bounds holds one less than a bound.
template <typename T, int kBytes>
struct NumberLanes : Lanes<std::make_signed_t<FloatBitsOf<T>>, kBytes> {
  using Element = T;
  using Key = std::make_signed_t<FloatBitsOf<T>>;
  using Base = Lanes<Key, kBytes>;
  using typename Base::Register;
  using Numbers = Lanes<T, kBytes>;
  using Bits = typename Lanes<FloatBitsOf<T>, kBytes>::Register;
  using Places = Lanes<std::int32_t, Base::kLanes * sizeof(std::int32_t)>;
  using Indices = typename Places::Register;

  FEDPLUG_OP Register BoundOf(FloatBitsOf<T> key) {
    return Base::Broadcast(static_cast<Key>(key - 1));
  }
  FEDPLUG_OP Register Sum(const T* a, const T* b) {
    return Register(Numbers::Load(a) + Numbers::Load(b));
  }
  FEDPLUG_OP Register Keys(Register lanes) {
    return lanes & BoundOf(FloatBitsOf<T>{1} << kKeyBits<T>);
  }
  FEDPLUG_OP Register KeepBelow(Register a, Register keys, Register bound) {
    return keys > bound ? Register{} : a;
  }
  FEDPLUG_OP Register Max(Register a, Register b) { return a > b ? a : b; }
  FEDPLUG_OP FloatBitsOf<T> Largest(Register keys) {
    Key lanes[Base::kLanes];
    Base::Store(lanes, keys);
    Key largest = 0;
    for (const Key key : lanes) largest = key > largest ? key : largest;
    return static_cast<FloatBitsOf<T>>(largest);
  }
  // As UndoNotes::DistanceOf, for lanes a that are sums.
  FEDPLUG_OP Register Distances(Register a, const T* delta, const T* residual) {
    const auto guess = typename Numbers::Register(a) - Numbers::Load(delta);
    return Register(Bits(Base::Load(residual)) - Bits(guess) + 0x7fffu);
  }
  // Negative where a distance does not fit 16 bits, or a sum is not finite.
  FEDPLUG_OP Register TooFar(Register distances, Register keys) {
    const Bits last = Bits(BoundOf(FloatTraits<T>::kInfinity));
    return Register(Bits(distances) | (0xfffeu - Bits(distances)) |
                    (last - Bits(keys)));
  }
};

}  // namespace fedplug::FEDPLUG_VECTOR

#if FEDPLUG_COMPILED_LEVEL == 2
#include "core/simd/avx2.h"
#elif FEDPLUG_COMPILED_LEVEL == 512
#include "core/simd/avx512.h"
#else
#include "core/simd/neon.h"
#endif

#endif  // FEDPLUG_VECTOR

#endif  // FEDPLUG_CORE_SIMD_VECTOR_H_
