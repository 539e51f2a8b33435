// The loop of words_loop.h with AVX2.
#include "core/philox/words.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx2.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX2
#include "core/philox/words_loop.h"

namespace fedplug::philox {

FEDPLUG_TARGET void Avx2Words(const Philox& philox, std::int64_t first_draw,
                              std::int64_t draws, std::uint32_t* words) {
  VectorWords<simd::avx2::Words>(philox, first_draw, draws, words);
}

}  // namespace fedplug::philox

#endif  // FEDPLUG_SIMD_X86
