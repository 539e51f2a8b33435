#include "core/topk/blocks.h"

namespace fedplug::topk {

template <typename T>
BlockKernels<T> BlockKernelsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512)
    return VectorBlockKernels<SimdLevel::kAvx512, T>();
  if (level == SimdLevel::kAvx2)
    return VectorBlockKernels<SimdLevel::kAvx2, T>();
#elif FEDPLUG_SIMD_NEON
  if (level == SimdLevel::kNeon)
    return VectorBlockKernels<SimdLevel::kNeon, T>();
#endif
  static_cast<void>(level);
  return {SumKeysOfBlock<T>,
          CountBlock<T>,
          PartitionBlock<T>,
          PartitionBlock<T>,
          PartitionBlock<T, true>,
          PartitionBlock<T, true>,
          PartitionBlock<T>,
          TakeBlock<T>,
          TakeBlock<T>,
          CompactBlock<T>};
}

template BlockKernels<float> BlockKernelsFor(SimdLevel level);
template BlockKernels<double> BlockKernelsFor(SimdLevel level);

}  // namespace fedplug::topk
