// The loop of words_loop.h with AVX-512.
#include "core/philox/words.h"

#if FEDPLUG_SIMD_X86

#include "core/simd/avx512.h"
#define FEDPLUG_TARGET FEDPLUG_TARGET_AVX512
#include "core/philox/words_loop.h"

namespace fedplug::philox {

FEDPLUG_TARGET void Avx512Words(const Philox& philox, std::int64_t first_draw,
                                std::int64_t draws, std::uint32_t* words) {
  VectorWords<simd::avx512::Words>(philox, first_draw, draws, words);
}

}  // namespace fedplug::philox

#endif  // FEDPLUG_SIMD_X86
