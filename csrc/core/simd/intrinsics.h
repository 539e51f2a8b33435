// <immintrin.h> for users of AVX-512, where FEDPLUG_SIMD_X86.
#ifndef FEDPLUG_CORE_SIMD_INTRINSICS_H_
#define FEDPLUG_CORE_SIMD_INTRINSICS_H_

// GCC 12 warns about its own header (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#endif  // FEDPLUG_CORE_SIMD_INTRINSICS_H_
