// The vectors of one SIMD level. CMake compiles each source that includes this once per level and defines
// FEDPLUG_COMPILED_LEVEL: 1 for NEON, 2 for AVX2, 512 for AVX-512. FEDPLUG_VECTOR is the namespace of the
// level's operations, and FEDPLUG_TARGET marks functions for its instruction set. Both are undefined on
// other processors.
#ifndef FEDPLUG_CORE_SIMD_VECTOR_H_
#define FEDPLUG_CORE_SIMD_VECTOR_H_

#include "core/simd/level.h"

#if FEDPLUG_SIMD_X86 && FEDPLUG_COMPILED_LEVEL == 2
#include "core/simd/avx2.h"
#define FEDPLUG_VECTOR simd::avx2
#define FEDPLUG_VECTOR_LEVEL SimdLevel::kAvx2
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX2
#elif FEDPLUG_SIMD_X86 && FEDPLUG_COMPILED_LEVEL == 512
#include "core/simd/avx512.h"
#define FEDPLUG_VECTOR simd::avx512
#define FEDPLUG_VECTOR_LEVEL SimdLevel::kAvx512
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX512
#elif FEDPLUG_SIMD_NEON && FEDPLUG_COMPILED_LEVEL == 1
#include "core/simd/neon.h"
#define FEDPLUG_VECTOR simd::neon
#define FEDPLUG_VECTOR_LEVEL SimdLevel::kNeon
#define FEDPLUG_TARGET
#endif

#endif  // FEDPLUG_CORE_SIMD_VECTOR_H_
