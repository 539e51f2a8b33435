// The body of a payload of some elements of an array. docs/wire-format.md
// specifies its bytes under "sparse bodies".
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

// REQUIRES: CheckSparseBody(count, code_bytes) is ok, `body` overlaps neither
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

// Reads an untrusted body. Refuses (kDataLoss) numbers that are not in their
// fewest bytes, more entries than the tensor has elements, and an index code
// that is longer than the body.
//
// SHAPE: body[bytes]
// COST:  reads at most ten bytes
Status ReadSparseBody(const std::uint8_t* body, std::int64_t bytes,
                      std::int64_t elements, SparseBodyParts* parts);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SPARSE_FORM_H_
