// Plain loops, written once and compiled for the baseline and AVX2, with which
// simple loops are already limited by memory.
#ifndef FEDPLUG_CORE_SIMD_LOOPS_H_
#define FEDPLUG_CORE_SIMD_LOOPS_H_

#include "core/base/floats.h"
#include "core/simd/level.h"

namespace fedplug {
namespace internal {

template <auto kLoop, typename Type = decltype(kLoop)>
struct Compiled;

template <auto kLoop, typename Result, typename... Arguments>
struct Compiled<kLoop, Result (*)(Arguments...)> {
  static Result Baseline(Arguments... arguments) { return kLoop(arguments...); }
#if FEDPLUG_SIMD_X86
  FEDPLUG_TARGET_AVX2 static Result Avx2(Arguments... arguments) {
    return kLoop(arguments...);
  }
#endif
};

}  // namespace internal

// A loop, marked FEDPLUG_ALWAYS_INLINE, compiled for a level.
// REQUIRES: IsSupported(level)
template <auto kLoop>
auto* LoopFor([[maybe_unused]] SimdLevel level) {
  using Compiled = internal::Compiled<kLoop>;
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) return &Compiled::Avx2;
#endif
  return &Compiled::Baseline;
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SIMD_LOOPS_H_
