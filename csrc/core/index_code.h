// The forms in which sparse payloads carry strictly ascending indices.
//
// Layout of a code for `count` indices below `size`:
//   kRice      nothing at all when count is 0, else
//              byte 0: the Rice parameter b, 0 <= b <= 30;
//              the b low bits of every gap;
//              for every gap, (gap >> b) zero bits and then a one bit,
//              where gap[0] = index[0] and gap[i] = index[i] - index[i-1] - 1
//   kBitPack   every index, in as many bits as the number size - 1 has
//   kBitmap    a bit for every element, 1 where there is an index
//   kShortest  byte 0: 0, 1 or 2 for the forms above, and a code of that form
// Bits go from the lowest of a byte to its highest; every part ends with its
// byte, and unused bits are zero. The encoder of kRice takes the smallest b
// with the fewest bits, count * (b + 1) + sum(gap >> b); that of kShortest the
// shortest code, the first one of equals.
// Source: Rice & Plaunt, "Adaptive variable-length coding for efficient
// compression of spacecraft television data", IEEE Trans. Commun. 1971; Golomb,
// "Run-length encodings", 1966.
#ifndef FEDPLUG_CORE_INDEX_CODE_H_
#define FEDPLUG_CORE_INDEX_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace fedplug {

enum class IndexForm { kRice, kBitPack, kBitmap, kShortest };

// By its name: "rice", "bitpack", "bitmap" or "shortest"; false when it is none
// of them.
bool FindIndexForm(const std::string& name, IndexForm* form);

// REQUIRES: indices ascend strictly and lie in [0, size); size < 2^31. Anything
//           else is kInvalidArgument, and *code is as it was
// SHAPE:    indices[count]; *code is replaced
// THREADS:  the caller's only
// COST:     O(count); kBitmap O(count + size / 8)
Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, IndexForm form,
                     std::vector<std::uint8_t>* code);

// Refuses counts that are not in [0, size] (kInvalidArgument) and codes too
// short or too long for so many indices (kDataLoss): to be asked before memory
// is taken for the indices, of which there are at most 8 a byte, and one.
//
// SHAPE: code[bytes]
Status CheckIndexCode(const std::uint8_t* code, std::int64_t bytes,
                      std::int64_t count, std::int64_t size, IndexForm form);

// The inverse of EncodeIndices. Every byte is treated as hostile: a code that
// is not laid out in this way for so many indices (length, padding, an index at
// or beyond `size` or not above the one before it) is kDataLoss, and nothing
// outside indices[0, count) is written. What is accepted is what EncodeIndices
// writes, save that a code of kShortest may be of a form that is not the
// shortest.
//
// REQUIRES: 0 <= count <= size < 2^31 (checked)
// SHAPE:    code[bytes], indices[count]
// THREADS:  the caller's only
// COST:     O(count + bytes)
Status DecodeIndices(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size, IndexForm form,
                     std::int32_t* indices);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_INDEX_CODE_H_
