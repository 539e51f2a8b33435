// The threads of the NumPy module.
#ifndef FEDPLUG_PYTHON_THREADS_H_
#define FEDPLUG_PYTHON_THREADS_H_

#include "core/base/parallel.h"

namespace fedplug::python {

// One pool for the process, begun on first use and never ended: to join threads
// while the interpreter shuts down is a way to hang. As many threads as
// FEDPLUG_NUM_THREADS says, or else as there are cores; as many again in a
// forked child.
// REQUIRES: the GIL
// Raises: ConfigError when FEDPLUG_NUM_THREADS is set to anything but an
// integer in [1, 1024]
Parallel& Threads();

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_THREADS_H_
