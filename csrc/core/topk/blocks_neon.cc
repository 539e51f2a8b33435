// The loops of block_loops.h with NEON.
#include "core/topk/blocks.h"

#if FEDPLUG_SIMD_NEON

#include "core/simd/neon.h"
#define FEDPLUG_TARGET
#include "core/topk/kernels_over.h"

namespace fedplug::topk {

template <typename T>
BlockKernels<T> NeonBlockKernels() {
  return KernelsOver<simd::neon::Vector<T>>();
}

template BlockKernels<float> NeonBlockKernels();
template BlockKernels<double> NeonBlockKernels();

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_NEON
