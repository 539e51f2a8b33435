// Which instruction set the kernels use: the best one this processor has, or
// the one FEDPLUG_SIMD asks for. One binary holds all of them; the results are
// the same bits. Must not know any kernel.
#ifndef FEDPLUG_CORE_SIMD_LEVEL_H_
#define FEDPLUG_CORE_SIMD_LEVEL_H_

#include "core/base/status.h"

// Other processors, and a build with -DFEDPLUG_SIMD_BASELINE_ONLY, have the
// baseline alone.
#if defined(__x86_64__) && !defined(FEDPLUG_SIMD_BASELINE_ONLY)
#define FEDPLUG_SIMD_X86 1
#define FEDPLUG_TARGET_AVX2 __attribute__((target("avx2,f16c,popcnt,bmi")))
#define FEDPLUG_TARGET_AVX512 __attribute__((target("avx512f,f16c,popcnt,bmi")))
#else
#define FEDPLUG_SIMD_X86 0
#endif
#if defined(__aarch64__) && !defined(FEDPLUG_SIMD_BASELINE_ONLY)
#define FEDPLUG_SIMD_NEON 1
#else
#define FEDPLUG_SIMD_NEON 0
#endif

namespace fedplug {

enum class SimdLevel { kBaseline, kAvx2, kAvx512, kNeon };

// "baseline", "avx2", "avx512" or "neon".
const char* NameOf(SimdLevel level);

bool IsSupported(SimdLevel level);

// *level is what the kernels use in this process. The environment is read once.
// Refuses, with kInvalidArgument and at every call, when FEDPLUG_SIMD names no
// level or one that this processor does not have.
Status FindSimdLevel(SimdLevel* level);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SIMD_LEVEL_H_
