#include "python/simd.h"

#include "python/arrays.h"

namespace fedplug::python {

SimdLevel RequireSimdLevel() {
  SimdLevel level;
  const Status status = FindSimdLevel(&level);
  if (!status.ok()) Throw("ConfigError", status.message());
  return level;
}

}  // namespace fedplug::python
