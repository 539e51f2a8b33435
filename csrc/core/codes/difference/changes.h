// The changed elements of a segment, by the exponents of their old words. The
// layout is in docs/wire-format.md.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_CHANGES_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_CHANGES_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/codes/difference/parts.h"
#include "core/codes/difference/words.h"

namespace fedplug::differences {

// Word is an unsigned integer of the element's width.
//
// REQUIRES: 0 < n < 2^31
// SHAPE:    before[n * sizeof(Word)], after[n * sizeof(Word)], at any address
// COST:     two passes over all elements, and some work for each changed one.
//           Scratch memory of 4 + sizeof(Word) bytes for each changed one
template <typename Word>
ByteVector EncodeChanges(const std::uint8_t* before, const std::uint8_t* after,
                         std::int64_t n, ExponentField field);

// The inverse, for untrusted bytes. After a refusal (kDataLoss) `after` holds
// anything.
//
// REQUIRES, COST: as above
template <typename Word>
Status DecodeChanges(Part code, const std::uint8_t* before, std::int64_t n,
                     ExponentField field, std::uint8_t* after);

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_CHANGES_H_
