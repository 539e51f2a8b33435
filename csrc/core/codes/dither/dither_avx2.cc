// The loops of loop.h with AVX2.
#include "core/codes/dither/dither.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx2.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX2
#include "core/codes/dither/loop.h"

namespace fedplug::value_loops {

const DitherLoops kAvx2DitherLoops = {
    DitherAtRandom<simd::avx2::Words, simd::avx2::Floats>};

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_SIMD_X86
