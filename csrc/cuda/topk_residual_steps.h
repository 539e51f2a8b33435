// The steps of the selection, each as what one block of threads does: to one
// tile of a tensor, or to one scope, the tensors that share a k. The method is
// the core's:
//   Survey       counts the sums by the leading 11 bits of |a|; writes them to
//                residual_out where that cannot be regretted
//   Split        writes them where Survey did not, and shortlists, tile by
//                tile, the entries at or above the bin in which the k-th
//                largest lies; counts those in that bin by their next 11 bits
//   Refine       counts by further digits what of the shortlist still is in the
//                bin, until the key of the k-th largest is known
//   CountChosen, ScanTiles, Emit
//                give every chosen entry its place, in the order of the
//                tensors and their indices, and move it out of the residual
// with FindCut after every round of counting. The tensors of a scope share its
// histogram, its cuts and the numbering of its entries; what is done once for a
// tensor, its report and its row split, its first tile does. No step depends on
// the order in which blocks or threads run: the only atomic operations are
// integer additions and maxima, and every place is computed, not drawn. No
// block waits for another: what one needs of all comes with the next launch.
// COST, per element: reads delta and residual_in and writes residual_out, and
// reads again the sums, or, under kError in place, both addends: 4 or 5 *
// sizeof(T) bytes. Per shortlisted entry, 2 bytes of scratch and one gather
// from residual_out for each later step. 9 launches for float, 3 + 2 * rounds
// in general; those over tiles, 5 of the 9, again for every 32 tensors, those
// over scopes for every 32 scopes. Must not know the CUDA runtime: tests run
// these steps on the CPU.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_STEPS_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_STEPS_H_

#include "cuda/topk_residual_histogram.h"
#include "cuda/topk_residual_shortlist.h"
#include "cuda/topk_residual_sums.h"

namespace fedplug::cuda::topk {

// The order of the steps. Launcher has EachTile(step) and EachScope(step),
// which run a step on every tile, or scope, of the call, after all that was
// asked for before.
template <typename T, typename Launcher>
void RunSteps(NonFinitePolicy policy, Launcher& launcher) {
  launcher.EachTile(Survey<T>{policy});
  launcher.EachScope(FindCut<T>{0});
  launcher.EachTile(Split<T>{policy});
  launcher.EachScope(FindCut<T>{1});
  for (int round = 2; round < kRounds<T>; ++round) {
    launcher.EachTile(Refine<T>{round});
    launcher.EachScope(FindCut<T>{round});
  }
  launcher.EachTile(CountChosen<T>{});
  launcher.EachScope(ScanTiles{});
  launcher.EachTile(Emit<T>{});
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_STEPS_H_
