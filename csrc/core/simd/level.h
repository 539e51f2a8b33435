// The instruction set of the kernels: the best one of this processor, or the
// one that FEDPLUG_SIMD names. One binary holds all of them. Results are equal
// bit for bit.
#ifndef FEDPLUG_CORE_SIMD_LEVEL_H_
#define FEDPLUG_CORE_SIMD_LEVEL_H_

#include "core/base/status.h"

// Other processors, and a build with -DFEDPLUG_SIMD_BASELINE_ONLY, have only
// the baseline.
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

// Sets *level to the level of this process. Reads the environment once. Refuses
// with kInvalidArgument, at every call, if FEDPLUG_SIMD names an unknown level
// or one that this processor lacks.
Status FindSimdLevel(SimdLevel* level);

}  // namespace fedplug

// Instruction sets of this x86-64 processor. __builtin_cpu_supports is not
// used: the runtime that Zig links answers no to all of them.

namespace fedplug::simd {

struct X86Features {
  bool avx2 = false;  // with f16c, popcnt and bmi
  bool avx512f = false;
  bool pclmul = false;
  bool vpclmulqdq = false;
};

// Only those that the system supports, too. Cached, because the query costs
// microseconds in a virtual machine.
const X86Features& FeaturesOfX86();

}  // namespace fedplug::simd

#endif  // FEDPLUG_CORE_SIMD_LEVEL_H_
