#include "core/codes/dither/dither.h"

namespace fedplug::value_loops {

DitherLoops DitherLoopsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512) return kAvx512DitherLoops;
  if (level == SimdLevel::kAvx2) return kAvx2DitherLoops;
#endif
  static_cast<void>(level);
  return {};
}

}  // namespace fedplug::value_loops
