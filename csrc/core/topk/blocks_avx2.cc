// The loops of block_loops.h with AVX2.
#include "core/topk/blocks.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx2.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX2
#include "core/topk/kernels_over.h"

namespace fedplug::topk {

template <typename T>
BlockKernels<T> Avx2BlockKernels() {
  return KernelsOver<simd::avx2::Vector<T>>();
}

template BlockKernels<float> Avx2BlockKernels();
template BlockKernels<double> Avx2BlockKernels();

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
