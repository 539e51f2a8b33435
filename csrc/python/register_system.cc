// `num_threads` and `simd_level`: what the kernels run with.
#include "python/arrays.h"
#include "python/simd.h"
#include "python/threads.h"

namespace fedplug::python {

void RegisterSystem(py::module_& module) {
  module.def("num_threads", [] { return Threads().MaxThreads(); });
  module.def("simd_level", [] { return NameOf(RequireSimdLevel()); });
}

}  // namespace fedplug::python
