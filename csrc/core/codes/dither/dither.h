// Random rounding with noise drawn in the same registers, while quotients are
// computed. Results equal drawing first (philox/words.h) and then rounding
// (values/loops.h).
#ifndef FEDPLUG_CORE_CODES_DITHER_DITHER_H_
#define FEDPLUG_CORE_CODES_DITHER_DITHER_H_

#include <cstdint>

#include "core/base/philox.h"
#include "core/philox/words.h"
#include "core/simd/level.h"

namespace fedplug::value_loops {

// Number of values in a group.
inline constexpr std::int64_t kDitherGroup = philox::kGroup * Philox::kWords;

// The loop `at_random` of LevelLoops<float>, with the words of
// the draws from first_draw on as noise. Null at levels that have none.
// REQUIRES: n is a multiple of kDitherGroup
struct DitherLoops {
  void (*at_random)(const Philox& philox, std::int64_t first_draw,
                    const float* x, std::int64_t n, float scale, int top,
                    std::uint8_t* levels) = nullptr;
};

// REQUIRES: IsSupported(level)
DitherLoops DitherLoopsFor(SimdLevel level);

// The loops of loop.h.
extern const DitherLoops kAvx2DitherLoops;
extern const DitherLoops kAvx512DitherLoops;

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_DITHER_DITHER_H_
