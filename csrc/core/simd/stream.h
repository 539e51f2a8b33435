// Streaming stores, for arrays too large for the caches: an ordinary store to a
// missing line reads it first.
#ifndef FEDPLUG_CORE_SIMD_STREAM_H_
#define FEDPLUG_CORE_SIMD_STREAM_H_

#include <algorithm>
#include <cstdint>

#include "core/simd/level.h"

#if FEDPLUG_SIMD_X86
#include <emmintrin.h>
#endif

namespace fedplug {

// Arrays of this size or more do not stay in the caches until they are read
// again.
inline constexpr std::int64_t kStreamedBytes = std::int64_t{32} << 20;

// Copies past the caches where it can: on x86, whole registers to an aligned
// address. Baseline registers suffice, because four of them fill a line.
//
// REQUIRES: the two do not overlap
// SHAPE:    from[n], to[n]
// THREADS:  others may read `to` after a FenceStreamedStores
template <typename T>
void StreamCopy(const T* from, std::int64_t n, T* to) {
  std::int64_t i = 0;
#if FEDPLUG_SIMD_X86
  constexpr auto kLanes = static_cast<std::int64_t>(16 / sizeof(T));
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    for (; i + kLanes <= n; i += kLanes) {
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(to + i),
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    }
  }
#endif
  std::copy(from + i, from + n, to + i);
}

// Orders streaming stores of this thread before its next stores.
inline void FenceStreamedStores() {
#if FEDPLUG_SIMD_X86
  _mm_sfence();
#endif
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SIMD_STREAM_H_
