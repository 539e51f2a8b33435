// All the loops of blocks.h over a vector V. See block_loops.h.
#ifndef FEDPLUG_CORE_TOPK_KERNELS_OVER_H_
#define FEDPLUG_CORE_TOPK_KERNELS_OVER_H_

#include "core/topk/block_loops.h"
#include "core/topk/taken_loops.h"

namespace fedplug::topk {
namespace {

template <typename V>
BlockKernels<typename V::Element> KernelsOver() {
  return {SumKeys<V>,
          CountPass<V>,
          PartitionInTwoLoops<V, Writes::kPlain>,
          PartitionDense<V, Writes::kPlain>,
          PartitionNoting<V, true>,
          PartitionNoting<V, false>,
          PartitionStreaming<V>,
          TakeMarked<V, false>,
          TakeStreaming<V>,
          Compact<V>};
}

}  // namespace
}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_KERNELS_OVER_H_
