// Random words of Philox for every SIMD level with equal results: many draws at once, and random rounding
// with them.
#ifndef FEDPLUG_CORE_PHILOX_WORDS_H_
#define FEDPLUG_CORE_PHILOX_WORDS_H_

#include <cstdint>

#include "core/base/philox.h"
#include "core/simd/level.h"

namespace fedplug::philox {

// Number of draws in a group.
inline constexpr std::int64_t kGroup = 32;

// The words of the draws first_draw, first_draw + 1 ...
// REQUIRES: draws is a multiple of kGroup
// SHAPE:    words[Philox::kWords * draws]
using WordsLoop = void(const Philox& philox, std::int64_t first_draw,
                       std::int64_t draws, std::uint32_t* words);

// REQUIRES: IsSupported(level)
WordsLoop* WordsLoopFor(SimdLevel level);

// The loops of words_vector.cc.
template <SimdLevel kLevel>
WordsLoop* VectorWordsLoop();

}  // namespace fedplug::philox

// Random rounding with noise drawn in the same registers, while quotients are
// computed. Results equal drawing first (philox/words.h) and then rounding
// (values/loops.h).

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

// The loops of words_vector.cc.
template <SimdLevel kLevel>
DitherLoops VectorDitherLoops();

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_PHILOX_WORDS_H_
