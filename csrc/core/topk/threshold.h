// The exact threshold, from the keys that a pass found in the pivot range, and
// the allocation of the selected entries to chunks. Keys at the threshold
// `from` and above are selected, and the first few of those just below it, the
// ties.
#ifndef FEDPLUG_CORE_TOPK_THRESHOLD_H_
#define FEDPLUG_CORE_TOPK_THRESHOLD_H_

#include <algorithm>
#include <cstdint>

#include "core/base/scratch.h"
#include "core/topk/chunks.h"
#include "core/topk/rank.h"
#include "core/topk/shortlist.h"

namespace fedplug::topk {

// Gives each chunk its ties, in order, and its place in the output. The keys
// just below the threshold are those at the edge of the range, or in the range.
template <typename Bits>
void AllocateEntries(Bits from, std::int64_t ties, bool edge_ties,
                     const Bits* range_keys, ChunkStates* states) {
  std::int64_t first_entry = 0;
  for (ChunkState& state : *states) {
    std::int32_t chosen = 0;  // 32 bits: twice as many in a vector
    std::int32_t tied = 0;
    const Bits* const keys = range_keys + state.range_start;
    for (std::int64_t j = 0; j < state.in_range; ++j) {
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

// Finds the threshold of the k largest and shares it out. False when the range
// missed.
//
// SHAPE: range_keys holds the keys in the range of each chunk, from its
//        range_start on
template <typename T>
bool FindThreshold(const PivotRange<T>& range, std::int64_t k,
                   const FloatBitsOf<T>* range_keys,
                   const BlockKernels<T>& kernels, ScratchBuffer* scratch,
                   ChunkStates* states, FloatBitsOf<T>* from) {
  using Bits = FloatBitsOf<T>;
  std::int64_t above = 0;
  std::int64_t in_range = 0;
  std::int64_t at_edge = 0;
  for (const ChunkState& state : *states) {
    above += state.above;
    in_range += state.in_range;
    at_edge += state.at_edge;
  }
  const std::int64_t wanted = k - above;
  if (wanted < 0 || wanted > in_range + at_edge) return false;
  std::int64_t ties = 0;
  if (wanted == 0) {
    *from = range.hi;
  } else if (wanted > in_range) {
    *from = range.lo;
    ties = wanted - in_range;
  } else {
    Bits* const keys = scratch->template Reserve<Bits>(2 * in_range + kSlack);
    Bits* end = keys;
    for (const ChunkState& state : *states) {
      end = std::copy_n(range_keys + state.range_start, state.in_range, end);
    }
    const auto list = ShortlistRanks<T>(keys, in_range, wanted, wanted,
                                        range.lo, range.hi, kernels, end);
    const Ranked<Bits> last =
        FindRank(list.keys, list.count, wanted - list.above, list.lo, list.hi);
    *from = static_cast<Bits>(last.key + 1);
    ties = wanted - list.above - last.above;
  }
  AllocateEntries(*from, ties, wanted > in_range, range_keys, states);
  return true;
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_THRESHOLD_H_
