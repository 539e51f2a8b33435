// The loops of block_loops.h with AVX-512.
#include "core/topk/blocks.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx512.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX512
#include "core/topk/kernels_over.h"

namespace fedplug::topk {

template <typename T>
BlockKernels<T> Avx512BlockKernels() {
  return KernelsOver<simd::avx512::Vector<T>>();
}

template BlockKernels<float> Avx512BlockKernels();
template BlockKernels<double> Avx512BlockKernels();

}  // namespace fedplug::topk

#endif  // FEDPLUG_SIMD_X86
