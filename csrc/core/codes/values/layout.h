// The layout of header, scales and levels of a value code, and the packing of
// the levels.
#ifndef FEDPLUG_CORE_CODES_VALUES_LAYOUT_H_
#define FEDPLUG_CORE_CODES_VALUES_LAYOUT_H_

#include <array>
#include <cstdint>

#include "core/base/bytes.h"
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
  int top = 1;
  int group_bytes = 1;

  // The number of bytes of the levels of `count` values.
  constexpr std::int64_t LevelBytes(std::int64_t count) const {
    return BytesFor(count * group_bytes);
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

using LevelChunk = std::array<std::uint8_t, value_loops::kChunk>;

// Packs numbers of `bits` bits into BytesFor(n * bits) bytes, with zeros after
// the last one. Overwrites the levels after them.
//
// REQUIRES: 0 <= n <= kChunk, 0 <= bits <= 8
void PackChunk(const value_loops::BitLoops& loops, std::int64_t n, int bits,
               LevelChunk* levels, std::uint8_t* to);

// The inverse. False if a bit after the last number is set.
bool UnpackChunk(const value_loops::BitLoops& loops, const std::uint8_t* from,
                 std::int64_t n, int bits, LevelChunk* levels);

// Packs n levels, the first of which is level `first` of data[levels_at ...].
//
// REQUIRES: 0 <= n <= kChunk, the layout is of no cast
void PackLevels(const ValueLayout& layout, const value_loops::BitLoops& loops,
                std::int64_t first, std::int64_t n, LevelChunk* levels,
                std::uint8_t* data);

// The inverse. False if untrusted bytes are not the levels of any n values. The
// levels of kSign become 0 and 2.
bool UnpackLevels(ValueForm form, const ValueLayout& layout,
                  const value_loops::BitLoops& loops, const std::uint8_t* data,
                  std::int64_t first, std::int64_t n, LevelChunk* levels);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_VALUES_LAYOUT_H_
