// Parts of a payload as arrays, for bindings that read one part and for those
// that read several.
#ifndef FEDPLUG_PYTHON_DECODING_H_
#define FEDPLUG_PYTHON_DECODING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/index_code.h"
#include "python/arrays.h"

namespace fedplug::python {

// Raises: ArgumentError if no form has this name.
IndexForm IndexFormCalled(const std::string& name);

// The indices of an untrusted code, in `place` or in a new array, after a check
// that the length of the code fits `count`.
// REQUIRES: `place` has `count` elements, and does not overlap the code
// Raises: PayloadError if it is not the code of `count` indices
py::array DecodedIndices(const Bytes& code, std::int64_t count,
                         std::int64_t size, IndexForm form,
                         std::optional<Flat> place);

// Untrusted bytes as values: in `place`, or without a copy if they are aligned,
// or in a new array.
// REQUIRES: there are whole values; `place` has as many, and does not overlap
//           the bytes
// Raises: PayloadError if one is not finite
py::array FiniteValues(const Bytes& bytes, const py::dtype& dtype,
                       std::optional<Flat> place);

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_DECODING_H_
