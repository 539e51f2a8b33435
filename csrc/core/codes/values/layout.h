// The layout of header, scales and levels of a value code, and the packing of
// the levels.
#ifndef FEDPLUG_CORE_CODES_VALUES_LAYOUT_H_
#define FEDPLUG_CORE_CODES_VALUES_LAYOUT_H_

#include <array>
#include <cstdint>

#include "core/codes/values/loops.h"
#include "core/value_code.h"

namespace fedplug {

struct ValueLayout {
  std::array<std::uint8_t, 4> header{};
  std::int64_t header_bytes = 0;

  // `block` values share a scale. All of them unless per_block. Casts have
  // none. The scales of kCodebook are the means of its bins, those of kBounded
  // its extremes. Those of kBfp are written as their exponents.
  bool per_block = false;
  std::int64_t block = 1;
  std::int64_t scales = 0;
  std::int64_t scale_bytes = 0;  // of each
  std::int64_t levels_at = 0;

  // kBounded: number of low bits of every level, which precede the levels.
  int low_bits = 0;
  std::int64_t low_at = 0;

  // Levels are 0 to 2 * top, and top stands for zero (of kCodebook for the bin
  // of the mean, and the last is 2 * top - 1; of kBounded it has no meaning).
  // They are packed in groups of eight, of whole bytes.
  static constexpr std::int64_t kGroup = 8;
  int top = 1;
  std::int64_t group_bytes = 1;

  // The number of bytes of the levels of `count` values.
  constexpr std::int64_t LevelBytes(std::int64_t count) const {
    return count / kGroup * group_bytes +
           (count % kGroup * group_bytes + kGroup - 1) / kGroup;
  }

  // The work of a thread at a time: whole blocks with their scales, and whole
  // chunks.
  std::int64_t Unit() const {
    return per_block && block > value_loops::kChunk ? block
                                                    : value_loops::kChunk;
  }
};

// REQUIRES: CheckValueCode(code) is ok, 0 <= count < 2^31
ValueLayout LayoutOf(const ValueCode& code, std::int64_t count,
                     std::int64_t value_bytes);

// Packs the levels of a chunk into bytes, and unpacks them.

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

#endif  // FEDPLUG_CORE_CODES_VALUES_LAYOUT_H_
