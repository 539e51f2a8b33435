// What the kernels run on: the number of threads, the SIMD level.
#include "python/arrays.h"
#include "python/threads.h"

namespace fedplug::python {

void RegisterSystem(py::module_& module) {
  module.def("num_threads", [] { return Threads().MaxThreads(); });
  // One build for every processor so far.
  module.def("simd_level", [] { return "baseline"; });
}

}  // namespace fedplug::python
