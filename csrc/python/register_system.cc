// `num_threads` and `simd_level` of the kernels, and `empty`, which allocates
// from the pool.
#include <pybind11/stl.h>

#include <vector>

#include "python/arrays.h"
#include "python/simd.h"
#include "python/threads.h"

namespace fedplug::python {

void RegisterSystem(py::module_& module) {
  module.def("num_threads", [] { return Threads().MaxThreads(); });
  module.def("empty",
             [](const std::vector<py::ssize_t>& shape, const py::dtype& dtype) {
               return NewArrayOfShape(dtype, shape);
             });
  module.def("simd_level", [] { return NameOf(RequireSimdLevel()); });
}

}  // namespace fedplug::python
