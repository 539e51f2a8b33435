// The steps of the selection, each as what one block of threads does to one
// tile of a tensor. The method is radix selection over several launches, as in
// AIR Top-K (Zhang, Naruse, Li, Wang, "Parallel Top-K Algorithms on GPU: A
// Comprehensive Study and New Methods", SC 2023) and RadiK (Li et al., ICS
// 2024, arXiv 2501.14336), fused with the error-feedback update and exact to
// the tie:
//   CountPass    counts the sums by the leading 11 bits of |a|; writes them to
//                residual_out where that cannot be regretted
//   PartitionPass
//                writes them where CountPass did not, and shortlists, tile by
//                tile, the entries at or above the bin in which the k-th
//                largest lies; counts those in that bin by their next 11 bits
//   Refine       counts by further digits what of the shortlist still is in the
//                bin, until the key of the k-th largest is known
//   CountChosen, Emit
//                give every chosen entry its place, in the order of the
//                tensors and their indices, and move it out of the residual
// The last block of a scope (the tensors that share a k) to finish counting
// computes the consequences: FindThreshold after every round, ScanChunks after
// CountChosen. The tensors of a scope share its histogram, thresholds and
// numbering of entries; the first block of a tensor writes its report and its
// row split. No step depends on the order in which blocks or threads run: the
// only atomic operations are integer additions and maxima and the count of
// arrivals, and every place is computed, not drawn. No block waits for another.
// COST, per element: reads delta and residual_in and writes residual_out, and
// reads again the sums, or, under kError in place, both addends: 4 or 5 *
// sizeof(T) bytes. Per shortlisted entry, 2 bytes of scratch and one gather
// from residual_out for each later step. 5 launches for float, 2 + rounds in
// general, again for every group of tensors.
#ifndef FEDPLUG_CUDA_TOPK_STEPS_H_
#define FEDPLUG_CUDA_TOPK_STEPS_H_

#include <cstdint>

#include "core/base/host_device.h"
#include "cuda/block.h"
#include "cuda/topk/entries.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"
#include "cuda/topk/shortlist.h"
#include "cuda/topk/sums.h"

namespace fedplug::cuda::topk {

// A step on a part of the tensor, and another that follows from what all parts
// of the scope have counted. Here the block takes it that is the last of the
// scope to be through with its own; where all blocks run together, every one
// does (together.h).
template <typename OfBlock, typename OfScope>
struct Then {
  OfBlock of_block;
  OfScope of_scope;

  union Shared {
    typename OfBlock::Shared of_block;
    typename OfScope::Shared of_scope;
  };

  template <typename Block, typename T, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part& part, Shared& shared) const {
    of_block(block, job, part, shared.of_block);
    const Scope& scope = job.scope;
    const bool last = block.Agree([&] {
      return IsLastToArrive(&scope.state->arrived, part.CountIn(scope));
    });
    if (!last) return;
    of_scope(block, job, part, shared.of_scope);
    ClearHistogram(block, scope.histogram);  // for the next launch
  }
};
template <typename OfBlock, typename OfScope>
Then(OfBlock, OfScope) -> Then<OfBlock, OfScope>;

// The order of the steps. Launcher has Each<Part>(step), which runs a step on
// every tile or chunk of the call, after all that was asked for before.
template <typename T, typename Launcher>
void RunSteps(NonFinitePolicy policy, Launcher& launcher) {
  launcher.template Each<Tile>(Then{CountPass<T>{policy}, FindThreshold<T>{0}});
  launcher.template Each<Tile>(
      Then{PartitionPass<T>{policy}, FindThreshold<T>{1}});
  for (int round = 2; round < kRounds<T>; ++round) {
    launcher.template Each<Chunk>(
        Then{Refine<T, ChunkEntries>{round}, FindThreshold<T>{round}});
  }
  launcher.template Each<Chunk>(
      Then{CountChosen<T, ChunkEntries>{}, ScanChunks<T>{}});
  launcher.template Each<Chunk>(Emit<T, ChunkEntries>{});
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_STEPS_H_
