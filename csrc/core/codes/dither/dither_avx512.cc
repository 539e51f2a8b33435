// The loops of loop.h with AVX-512.
#include "core/codes/dither/dither.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx512.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX512
#include "core/codes/dither/loop.h"

namespace fedplug::value_loops {

const DitherLoops kAvx512DitherLoops = {
    DitherAtRandom<simd::avx512::Words, simd::avx512::Floats>};

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_SIMD_X86
