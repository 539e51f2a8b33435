// The difference between two versions of an array, exact to the bit, and whole
// arrays. docs/wire-format.md specifies the bytes under "the code of a
// difference".
//
// Elements are words of 1, 2, 4 or 8 bytes. The encoder chooses classes, forms
// and planes. Its code is never longer than the elements and a few bytes for
// each segment and plane.
#ifndef FEDPLUG_CORE_DIFFERENCE_CODE_H_
#define FEDPLUG_CORE_DIFFERENCE_CODE_H_

#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

struct ElementLayout {
  std::int64_t bytes;     // of an element: 1, 2, 4 or 8
  std::int64_t mantissa;  // bits below the exponent; 8 bytes - 1 without one
};

// Refuses (kInvalidArgument) other layouts, and counts that no array has.
Status CheckElements(ElementLayout layout, std::int64_t count);

// Refuses as CheckElements does. `before` is null for a whole array.
//
// SHAPE:    before[count * layout.bytes], after[count * layout.bytes], at any
//           address, *code is replaced
// THREADS:  those of `threads`, a segment each. The code does not depend on
//           them
// COST:     changes.h. Planes take about as long as rANS of every byte
Status EncodeDifference(const std::uint8_t* before, const std::uint8_t* after,
                        std::int64_t count, ElementLayout layout,
                        Parallel& threads, std::vector<std::uint8_t>* code);

// The inverse, for untrusted bytes: a code that is not laid out in this way for
// these old elements is kDataLoss, and `after` then holds anything.
//
// SHAPE, THREADS: as above, and code[bytes], `after` overlaps nothing
// COST:     as above. Scratch memory of a segment and thread is at most 13
//           bytes per element
Status DecodeDifference(const std::uint8_t* code, std::int64_t bytes,
                        const std::uint8_t* before, std::int64_t count,
                        ElementLayout layout, Parallel& threads,
                        std::uint8_t* after);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_DIFFERENCE_CODE_H_
