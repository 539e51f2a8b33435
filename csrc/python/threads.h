// The threads of the NumPy module.
#ifndef FEDPLUG_PYTHON_THREADS_H_
#define FEDPLUG_PYTHON_THREADS_H_

#include "core/base/parallel.h"

namespace fedplug::python {

// One pool per process, started on first use and never joined, because joining
// threads at interpreter shutdown can hang. FEDPLUG_NUM_THREADS sets the number
// of threads. The default is the number of cores.
// REQUIRES: the GIL
// Raises: ConfigError if FEDPLUG_NUM_THREADS is set to anything but an
// integer in [1, 1024]
Parallel& Threads();

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_THREADS_H_
