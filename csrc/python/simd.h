// The SIMD level of the NumPy module.
#ifndef FEDPLUG_PYTHON_SIMD_H_
#define FEDPLUG_PYTHON_SIMD_H_

#include "core/simd/level.h"

namespace fedplug::python {

// REQUIRES: the GIL
// Raises: ConfigError if FEDPLUG_SIMD is set, but not to a level this
// processor has
SimdLevel RequireSimdLevel();

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_SIMD_H_
