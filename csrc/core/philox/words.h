// Many draws of Philox at once, for every SIMD level with equal results.
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

// The loops of words_loop.h.
WordsLoop Avx2Words;
WordsLoop Avx512Words;

}  // namespace fedplug::philox

#endif  // FEDPLUG_CORE_PHILOX_WORDS_H_
