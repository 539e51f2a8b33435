// Plain loops, written once and compiled for the baseline and AVX2, with which
// simple loops are already limited by memory.
#ifndef FEDPLUG_CORE_SIMD_LOOPS_H_
#define FEDPLUG_CORE_SIMD_LOOPS_H_

#include "core/base/floats.h"
#include "core/simd/level.h"

namespace fedplug {

// A loop, marked FEDPLUG_ALWAYS_INLINE, compiled for the baseline.
template <auto kLoop, typename Result, typename... Arguments>
Result Baseline(Arguments... arguments) {
  return kLoop(arguments...);
}

#if FEDPLUG_SIMD_X86
// The same loop compiled for AVX2.
template <auto kLoop, typename Result, typename... Arguments>
FEDPLUG_TARGET_AVX2 Result Avx2(Arguments... arguments) {
  return kLoop(arguments...);
}
#endif

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SIMD_LOOPS_H_
