// The words of a segment byte by byte, each plane in its own entropy code. The
// layout is in docs/wire-format.md.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_PLANES_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_PLANES_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/codes/difference/parts.h"

namespace fedplug::differences {

// Word is an unsigned integer of the element's width.
//
// REQUIRES: 0 < n < 2^31
// SHAPE:    words[n * sizeof(Word)], at any address
template <typename Word>
ByteVector EncodePlanes(const std::uint8_t* words, std::int64_t n,
                        bool rotated);

// The inverse, for untrusted bytes. After a refusal (kDataLoss) `words` holds
// anything.
template <typename Word>
Status DecodePlanes(Part code, std::int64_t n, bool rotated,
                    std::uint8_t* words);

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_PLANES_H_
