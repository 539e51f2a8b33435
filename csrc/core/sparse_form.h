// The body of a sparse payload, of a tensor of which only some entries are
// sent.
//
// Layout:
//   1 to 5 bytes  k, the number of entries
//   1 to 5 bytes  c, the length of the index code
//   c bytes       the index code (index_code.h)
//   the rest      the values of the k entries (value_code.h)
// Both numbers are below 2^31, in LEB128: seven bits a byte, the lowest first,
// the high bit set on all bytes but the last; in the fewest bytes that hold
// them.
#ifndef FEDPLUG_CORE_SPARSE_FORM_H_
#define FEDPLUG_CORE_SPARSE_FORM_H_

#include <cstdint>

#include "core/base/status.h"

namespace fedplug {

// Refuses (kInvalidArgument) a number of entries or a length of an index code
// that is not in [0, 2^31).
Status CheckSparseBody(std::int64_t count, std::int64_t code_bytes);

// The number of bytes of a body with these parts.
//
// REQUIRES: CheckSparseBody(count, code_bytes) is ok
std::int64_t SparseBodyBytes(std::int64_t count, std::int64_t code_bytes,
                             std::int64_t value_bytes);

// REQUIRES: CheckSparseBody(count, code_bytes) is ok; `body` overlaps neither
//           part
// SHAPE:    code[code_bytes], values[value_bytes],
//           body[SparseBodyBytes(count, code_bytes, value_bytes)]
// THREADS:  the caller's only
// COST:     a copy of both parts
void WriteSparseBody(std::int64_t count, const std::uint8_t* code,
                     std::int64_t code_bytes, const std::uint8_t* values,
                     std::int64_t value_bytes, std::uint8_t* body);

// The parts of a body: the index code is in [code_begin, values_begin), the
// values are in [values_begin, the body's end).
struct SparseBodyParts {
  std::int64_t count = 0;
  std::int64_t code_begin = 0;
  std::int64_t values_begin = 0;
};

// Reads an untrusted body; refuses (kDataLoss) numbers that are not in their
// fewest bytes, more entries than the tensor has elements, and an index code
// that is longer than the body.
//
// SHAPE: body[bytes]
// COST:  reads at most ten bytes
Status ReadSparseBody(const std::uint8_t* body, std::int64_t bytes,
                      std::int64_t elements, SparseBodyParts* parts);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SPARSE_FORM_H_
