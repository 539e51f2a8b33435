// The difference between two versions of an array, exact to the bit, and whole
// arrays.
//
// An element is a word of 1, 2, 4 or 8 bytes, little-endian. A float has an
// exponent, of which the lowest 8 bits count; elements without one are all
// treated alike.
//
// Layout of a code, for every 2^23 elements and for the rest:
//   number   the length of the segment, with its first byte
//   1 byte   0: planes, which need no old words; 1: changes
//   the segment
// Numbers are in LEB128 (base/leb128.h). A part is the number of its bytes and
// these.
//
// Planes: for every byte of a word, the lowest first, the part with the kRans
// code (symbol_code.h) of these bytes of all words, 8 bits each. The words of
// elements with an exponent are rotated left by one bit before, so that the
// highest byte is the exponent alone.
//
// Changes: the number of classes, 0 if no element changed. Then for every class
// three numbers: how many exponents it has, from the lowest on (exponents of
// all classes together are all there are), how many elements of the segment
// have old words with these, and how many of them changed. Then for every class
// with changes
//   where not all its elements changed, the places of the changed ones among
//   the elements of the class, in order:
//     1 byte   0: Rice. Otherwise b, 4 or 8: a bitmap
//     part     the kRice code of the places (index_code.h); or the kRans code
//              of the bytes of their kBitmap code, in symbols of b bits
//   the steps of the changed elements, new word minus old word modulo 2^w, of
//   words of w bits, as two's complement:
//     1 byte   b, the number of bits of a symbol, 1 to 8
//     part     the kRans code of the symbols
//     part     the low bits of all steps, the lowest bit of a byte first;
//              unused bits are 0
//   A step of magnitude m has max(0, floor(log2 m) - t) low bits, l, with t = 1
//   for w = 64 and otherwise 2, and the symbol
//   2 (2^t l + (m >> l) - 1), plus 1 if it is negative.
//
// The encoder chooses classes, forms and planes freely; the code is never
// longer than the elements and a few bytes for each segment and plane.
//
// Sources: of planes, Hershcovitch et al., "ZipNN", arXiv:2411.05239; that most
// bfloat16 weights keep their bits, arXiv:2602.03839.
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

// Refuses what CheckElements does. `before` is null for a whole array.
//
// SHAPE:    before[count * layout.bytes], after[count * layout.bytes], at any
//           address; *code is replaced
// THREADS:  those of `threads`, a segment each; the code does not depend on
//           them
// COST:     changes.h; planes take about as long as rANS of every byte
Status EncodeDifference(const std::uint8_t* before, const std::uint8_t* after,
                        std::int64_t count, ElementLayout layout,
                        Parallel& threads, std::vector<std::uint8_t>* code);

// The inverse, for untrusted bytes: a code that is not laid out in this way for
// these old elements is kDataLoss, and `after` then holds anything.
//
// SHAPE, THREADS: as above; code[bytes], `after` overlaps nothing
// COST:     as above; scratch memory of a segment and thread is at most 13
//           bytes per element
Status DecodeDifference(const std::uint8_t* code, std::int64_t bytes,
                        const std::uint8_t* before, std::int64_t count,
                        ElementLayout layout, Parallel& threads,
                        std::uint8_t* after);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_DIFFERENCE_CODE_H_
