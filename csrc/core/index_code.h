// Rice code for strictly ascending indices: the form in which sparse payloads
// carry them.
//
// Layout of a code for `count` indices below `size` (nothing at all when count
// is 0):
//   byte 0         the Rice parameter b, 0 <= b <= 30
//   ceil(count*b/8) bytes   the b low bits of every gap, one after the other,
//   least significant bit first the rest       for every gap, (gap >> b) zero
//   bits and then a one bit, least significant bit first
// where gap[0] = index[0] and gap[i] = index[i] - index[i-1] - 1. Unused bits
// of the last byte of each part are zero. The encoder takes the smallest b with
// the fewest bits, count * (b + 1) + sum(gap >> b), so that a code is unique.
// Source: Rice & Plaunt, "Adaptive variable-length coding for efficient
// compression of spacecraft television data", IEEE Trans. Commun. 1971; Golomb,
// "Run-length encodings", 1966.
#ifndef FEDPLUG_CORE_INDEX_CODE_H_
#define FEDPLUG_CORE_INDEX_CODE_H_

#include <cstdint>
#include <vector>

#include "core/status.h"

namespace fedplug {

// REQUIRES: indices ascend strictly and lie in [0, size); size < 2^31. Anything
// else is kInvalidArgument. SHAPE:    indices[count]; *code is replaced
// THREADS:  the caller's only
// COST:     O(count)
Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, std::vector<std::uint8_t>* code);

// The inverse. Every byte is treated as hostile: a code that EncodeIndices
// would not have laid out in this way (length, padding, an index at or beyond
// `size`) is kDataLoss, and nothing outside indices[0, count) is written.
//
// REQUIRES: 0 <= count <= size < 2^31
// SHAPE:    code[bytes], indices[count]
// THREADS:  the caller's only
// COST:     O(count + bytes)
Status DecodeIndices(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size,
                     std::int32_t* indices);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_INDEX_CODE_H_
