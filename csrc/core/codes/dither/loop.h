// The loops of dither.h, written once over the Words and Floats of
// simd/avx512.h or avx2.h. All quotients of a step come first, so that the
// processor divides while it draws.
#ifndef FEDPLUG_TARGET
#error "define FEDPLUG_TARGET before including core/codes/dither/loop.h"
#endif
#ifndef FEDPLUG_CORE_CODES_DITHER_LOOP_H_
#define FEDPLUG_CORE_CODES_DITHER_LOOP_H_

#include <cstdint>

#include "core/codes/dither/dither.h"
#include "core/philox/words_loop.h"

namespace fedplug::value_loops {
namespace {

// A float with so large a number added to it, and below 2^22, has it as the
// lowest bits of its own.
constexpr float kNoFraction = 0x1.8p23f;

// As Philox::ToUniform.
template <typename F, typename Words>
FEDPLUG_TARGET FEDPLUG_ALWAYS_INLINE typename F::Register Uniform(Words words) {
  return F::Minus(F::FromWords(words, 0x7fffffu, 0x3f800000u),
                  F::Broadcast(1.0f));
}

template <typename V, typename F>
FEDPLUG_TARGET void DitherAtRandom(const Philox& philox,
                                   std::int64_t first_draw, const float* x,
                                   std::int64_t n, float scale, int top,
                                   std::uint8_t* levels) {
  using Register = typename F::Register;
  constexpr int kRegisters = philox::kRegisters<V>;
  const Register one_scale = F::Broadcast(scale);
  const Register whole = F::Broadcast(static_cast<float>(top));
  const Register down = F::Broadcast(kNoFraction + static_cast<float>(top));
  const Register up = F::Broadcast(kNoFraction + static_cast<float>(top + 1));
  for (std::int64_t done = 0; done < n; done += kRegisters * F::kLanes) {
    Register exact[kRegisters];
    for (int r = 0; r < kRegisters; ++r) {
      exact[r] = F::Times(F::Over(F::Load(x + done + r * F::kLanes), one_scale),
                          whole);
    }
    typename V::Register words[kRegisters];
    philox::DrawAtOnce<V>(philox, first_draw + done / Philox::kWords, words);
    for (int r = 0; r < kRegisters; ++r) {
      const Register below = F::Floor(exact[r]);
      const auto goes_up =
          F::Below(Uniform<F>(words[r]), F::Minus(exact[r], below));
      F::StoreBytes(levels + done + r * F::kLanes,
                    F::Plus(below, F::Choose(goes_up, up, down)));
    }
  }
}

}  // namespace
}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_DITHER_LOOP_H_
