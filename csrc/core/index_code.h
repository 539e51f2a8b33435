// The forms in which sparse payloads carry strictly ascending indices.
//
// Layout of a code for `count` indices below `size`:
//   kRice      nothing at all when count is 0, else
//              byte 0: the Rice parameter b, 0 <= b <= 30;
//              the b low bits of every gap;
//              for every gap, (gap >> b) zero bits and then a one bit,
//              where gap[0] = index[0] and gap[i] = index[i] - index[i-1] - 1
//   kGaps      nothing at all when count is 0, else
//              3 bytes: the state, in [2^16, 2^24)
//              the bytes that it takes in
// Bits go from the lowest of a byte to its highest; every part ends with its
// byte, and unused bits are zero. The encoder of kRice takes the smallest b
// with the fewest bits, count * (b + 1) + sum(gap >> b). With b = 0 these are a
// bitmap up to the last index, so no code exceeds size / 8 + 3 bytes.
//
// kGaps is an adaptive binary code of the numbers m = gap + 1, each of a class
// e = floor(log2 m): the five bits of e, highest first, but for those that
// cannot be 1 as 2^e would be above `size`; the highest of the e bits of m
// after its first and the one after that, where there are such; the others, up
// to 8 at once. Each of the first seven has a context: the bits of e the node
// of their tree, 1 and then twice the last and the bit; the other two 32 + e
// and 64 + 2 e + the bit before. A context has two probabilities of a 1 in
// parts of 2^16; after a bit they approach it by 1/16 and by 1/128, rounded
// towards where they are. Their sum >> 5, within [32, 4064], is p of 4096. The
// others have equal shares.
//
// To decode, of the state x the residue r = x % 4096 names what comes: a 1
// where r < p, else a 0; of the b others together the number r >> (12 - b).
// With start s and frequency f of that
//   0 and p                     a 1
//   p and 4096 - p              a 0
//   v << (12 - b) and
//   1 << (12 - b)               the number v of b bits
// x becomes f * (x >> 12) + r - s, and while it is below 2^16, 256 x + the next
// byte. At the end no byte is left, and x is 2^16.
//
// At first both probabilities are those of gaps that are geometric, in parts of
// 2^30:
//   q = (size - count) / size
//   u[0] = 1, u[e + 1] = u[e]^2 q is that of m >= 2^e, and u[32] = 0
//   (u[c] - u[b]) / (u[a] - u[b])
//                    for a bit that chooses between classes [a, c) and [c, b)
//   (u[e] u[e - 1] q - u[e + 1]) / (u[e] - u[e + 1]), not negative
//                    for the first bit after a class
//   1/2              where the divisor is 0, for e = 0 and for the second bit
// within [512, 65024] of 2^16. Every product and quotient is rounded down,
// u[e]^2 before times q, u[e - 1] q before times u[e].
// Sources: Moffat, Neal & Witten, "Arithmetic coding revisited", 1998, for the
// method; Duda, arXiv:1311.2540, for the state; Marpe, Schwarz & Wiegand,
// "Context-based adaptive binary arithmetic coding", 2003, for contexts.
//
// Source of kRice: Rice & Plaunt, "Adaptive variable-length coding for
// efficient compression of spacecraft television data", IEEE Trans. Commun.
// 1971; Golomb, "Run-length encodings", 1966.
#ifndef FEDPLUG_CORE_INDEX_CODE_H_
#define FEDPLUG_CORE_INDEX_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace fedplug {

enum class IndexForm { kRice, kGaps };

// Finds a form by its name, "rice" or "gaps"; false if there is no such form.
bool FindIndexForm(const std::string& name, IndexForm* form);

// REQUIRES: indices ascend strictly and lie in [0, size); size < 2^31. Anything
//           else is kInvalidArgument, and *code is unchanged
// SHAPE:    indices[count]; *code is replaced
// THREADS:  the caller's only
// COST:     O(count)
Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, IndexForm form,
                     std::vector<std::uint8_t>* code);

// Refuses counts that are not in [0, size] (kInvalidArgument) and lengths of a
// code that cannot hold `count` indices (kDataLoss). Call it before allocating
// the indices: there are at most 8 per byte, and 256 per byte with kGaps.
Status CheckIndexCode(std::int64_t bytes, std::int64_t count, std::int64_t size,
                      IndexForm form);

// The inverse of EncodeIndices. Untrusted bytes: a code that is not the layout
// of `count` indices (length, padding, an index at or beyond `size` or not
// above its predecessor) is kDataLoss, and nothing outside indices[0, count) is
// written. Only what EncodeIndices writes is accepted.
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
