// Packs the levels of a chunk into bytes, and unpacks them.
#ifndef FEDPLUG_CORE_CODES_VALUES_PACKING_H_
#define FEDPLUG_CORE_CODES_VALUES_PACKING_H_

#include <array>
#include <cstdint>

#include "core/codes/values/layout.h"
#include "core/codes/values/loops.h"

namespace fedplug {

using LevelChunk = std::array<std::uint8_t, value_loops::kChunk>;

// Room for the 16 bits of each cast.
using PackedChunk = std::array<std::uint8_t, 2 * value_loops::kChunk +
                                                 value_loops::kPackedSlack>;

// Writes the first n levels. Overwrites those after them.
//
// REQUIRES: 0 <= n <= kChunk, the layout is of no cast
void PackLevels(const ValueLayout& layout, const value_loops::BitLoops& loops,
                std::int64_t n, LevelChunk* levels, PackedChunk* packed);

// The inverse. False if untrusted bytes are not the levels of any n values. The
// levels of kSign become 0 and 2.
bool UnpackLevels(ValueForm form, const ValueLayout& layout,
                  const value_loops::BitLoops& loops, std::int64_t n,
                  const PackedChunk& packed, LevelChunk* levels);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_VALUES_PACKING_H_
