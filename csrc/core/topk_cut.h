// The exact cut, from the keys that a walk found in the band, and the share of
// each chunk in what leaves. A cut is a key, `from`: keys at it and above
// leave, and of those just below it the first few, the ties. Must not know
// which walk it was.
#ifndef FEDPLUG_CORE_TOPK_CUT_H_
#define FEDPLUG_CORE_TOPK_CUT_H_

#include <algorithm>
#include <cstdint>

#include "core/scratch.h"
#include "core/topk_chunks.h"
#include "core/topk_rank.h"
#include "core/topk_shortlist.h"

namespace fedplug::topk {

// Gives each chunk its ties, in order, and its place in the output. The keys
// just below the cut are those at the edge of the band, or in the band.
template <typename Bits>
void ShareOut(Bits from, std::int64_t ties, bool edge_ties,
              const Bits* band_keys, ChunkStates* states) {
  std::int64_t first_entry = 0;
  for (ChunkState& state : *states) {
    std::int32_t chosen = 0;  // 32 bits: twice as many in a vector
    std::int32_t tied = 0;
    const Bits* const keys = band_keys + state.band_start;
    for (std::int64_t j = 0; j < state.in_band; ++j) {
      chosen += keys[j] >= from;
      tied += keys[j] + 1 == from;
    }
    state.tied = edge_ties ? state.at_edge : tied;
    state.ties = std::min(ties, state.tied);
    ties -= state.ties;
    state.chosen = state.above + chosen + state.ties;
    state.first_entry = first_entry;
    first_entry += state.chosen;
  }
}

// Finds the cut of the k largest and shares it out. False when the band missed.
//
// SHAPE: band_keys holds the keys in the band of each chunk, from its
//        band_start on
template <typename T>
bool FindCut(const Band<T>& band, std::int64_t k,
             const FloatBitsOf<T>* band_keys, const BlockKernels<T>& kernels,
             ScratchBuffer* scratch, ChunkStates* states,
             FloatBitsOf<T>* from) {
  using Bits = FloatBitsOf<T>;
  std::int64_t above = 0;
  std::int64_t in_band = 0;
  std::int64_t at_edge = 0;
  for (const ChunkState& state : *states) {
    above += state.above;
    in_band += state.in_band;
    at_edge += state.at_edge;
  }
  const std::int64_t wanted = k - above;
  if (wanted < 0 || wanted > in_band + at_edge) return false;
  std::int64_t ties = 0;
  if (wanted == 0) {
    *from = band.hi;
  } else if (wanted > in_band) {
    *from = band.lo;
    ties = wanted - in_band;
  } else {
    Bits* const keys = scratch->template Reserve<Bits>(2 * in_band + kSlack);
    Bits* end = keys;
    for (const ChunkState& state : *states) {
      end = std::copy_n(band_keys + state.band_start, state.in_band, end);
    }
    const auto list = ShortlistRanks<T>(keys, in_band, wanted, wanted, band.lo,
                                        band.hi, kernels, end);
    const Ranked<Bits> last =
        FindRank(list.keys, list.count, wanted - list.above, list.lo, list.hi);
    *from = static_cast<Bits>(last.key + 1);
    ties = wanted - list.above - last.above;
  }
  ShareOut(*from, ties, wanted > in_band, band_keys, states);
  return true;
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_CUT_H_
