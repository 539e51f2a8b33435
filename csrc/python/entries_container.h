// Entries as the container of a sparse payload.
#ifndef FEDPLUG_PYTHON_ENTRIES_CONTAINER_H_
#define FEDPLUG_PYTHON_ENTRIES_CONTAINER_H_

#include <cstdint>

#include "core/index_code.h"
#include "python/arrays.h"

namespace fedplug::python {

// The body is written in place.
//
// REQUIRES: the GIL; `indices` are int32; `values` are finite floats, or the
//           bytes of their code, `header` is from EncodeHeader
// Raises:   ArgumentError if the indices are not ascending in [0, elements)
py::bytes EntriesContainer(const Flat& indices, std::int64_t elements,
                           const Flat& values, const py::bytes& header,
                           IndexForm form);

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_ENTRIES_CONTAINER_H_
