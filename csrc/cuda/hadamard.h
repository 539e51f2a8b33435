// The Hadamard transform of numbers in shared memory, and sums over them, in
// the order of core/rotated_code.h.
#ifndef FEDPLUG_CUDA_HADAMARD_H_
#define FEDPLUG_CUDA_HADAMARD_H_

#include "core/base/host_device.h"

namespace fedplug::cuda::hadamard {

inline constexpr int kThreads = 256;

// kStages stages, of elements `half`, 2 half ... apart: a thread loads
// 2^kStages elements at a time. REQUIRES: half is a power of two
template <int kStages, typename Block, typename T>
FEDPLUG_HOST_DEVICE void Stages(const Block& block, T* x, int n, int half) {
  constexpr int kCount = 1 << kStages;
  block.Each([&](int thread) {
    for (int i = thread; i < n / kCount; i += kThreads) {
      const int low = i & (half - 1);
      T* const from = x + (i - low) * kCount + low;
      T y[kCount];
      for (int k = 0; k < kCount; ++k) y[k] = from[k * half];
      for (int apart = 1; apart < kCount; apart *= 2) {
        for (int k = 0; k < kCount; ++k) {
          if ((k & apart) != 0) continue;
          const T left = y[k];
          const T right = y[k + apart];
          y[k] = left + right;
          y[k + apart] = left - right;
        }
      }
      for (int k = 0; k < kCount; ++k) from[k * half] = y[k];
    }
  });
}

// Sums and differences of elements `half`, 2 half ... n / 2 apart, in this
// order. SHAPE: x[n], powers of two
template <typename Block, typename T>
FEDPLUG_HOST_DEVICE void Butterflies(const Block& block, T* x, int n,
                                     int half) {
  for (; 8 * half <= n; half *= 8) Stages<3>(block, x, n, half);
  if (4 * half <= n) {
    Stages<2>(block, x, n, half);
  } else if (2 * half <= n) {
    Stages<1>(block, x, n, half);
  }
}

// Adds the right half to the left half, until `left` elements are left.
template <typename Block, typename T>
FEDPLUG_HOST_DEVICE void Fold(const Block& block, T* x, int n, int left) {
  while (n > left) {
    n /= 2;
    block.Each([&](int thread) {
      for (int i = thread; i < n; i += kThreads) x[i] += x[n + i];
    });
  }
}

}  // namespace fedplug::cuda::hadamard

#endif  // FEDPLUG_CUDA_HADAMARD_H_
