#include "core/topk/blocks.h"

namespace fedplug::topk {

template <>
BlockKernels<float> BlockKernelsFor<float>(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512) return Avx512BlockKernels();
  if (level == SimdLevel::kAvx2) return Avx2BlockKernels();
#endif
  static_cast<void>(level);
  return {CountBlock<float>, PartitionBlock<float>, PartitionBlock<float>,
          PartitionBlock<float>, CompactBlock<float>};
}

}  // namespace fedplug::topk
