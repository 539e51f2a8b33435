// The loop of words.h, written once over the Words of simd/avx512.h or avx2.h:
// registers of which each 64-bit lane has one word of a draw in its lower half.
// The multiplication does not look at the upper one, so that a product is the
// next word as it is, and nothing is moved between lanes until the end.
#ifndef FEDPLUG_TARGET
#error "define FEDPLUG_TARGET before including core/philox/words_loop.h"
#endif
#ifndef FEDPLUG_CORE_PHILOX_WORDS_LOOP_H_
#define FEDPLUG_CORE_PHILOX_WORDS_LOOP_H_

#include <cstdint>

#include "core/philox/words.h"

namespace fedplug::philox {
namespace {

template <typename V>
FEDPLUG_TARGET void VectorWords(const Philox& philox, std::int64_t first_draw,
                                std::int64_t draws, std::uint32_t* words) {
  using Register = typename V::Register;
  // As many registers side by side as there are for their four words.
  constexpr int kSide = V::kSideBySide;
  static_assert(kGroup % (kSide * V::kLanes) == 0);
  const Register factor0 = V::Broadcast(Philox::kFactors[0]);
  const Register factor2 = V::Broadcast(Philox::kFactors[1]);
  for (std::int64_t done = 0; done < draws; done += kSide * V::kLanes) {
    Register w0[kSide], w1[kSide], w2[kSide], w3[kSide];
    for (int s = 0; s < kSide; ++s) {
      w0[s] = V::Iota(first_draw + done + s * V::kLanes);
      w1[s] = V::High(w0[s]);
      w2[s] = V::Broadcast(philox.stream()[0]);
      w3[s] = V::Broadcast(philox.stream()[1]);
    }
    Philox::Key key = philox.key();
    for (int round = 0; round < Philox::kRounds; ++round) {
      const Register key0 = V::Broadcast(key[0]);
      const Register key1 = V::Broadcast(key[1]);
      for (int s = 0; s < kSide; ++s) {
        const Register product0 = V::Multiply(w0[s], factor0);
        const Register product2 = V::Multiply(w2[s], factor2);
        w0[s] = V::Xor(V::High(product2), w1[s], key0);
        w2[s] = V::Xor(V::High(product0), w3[s], key1);
        w1[s] = product2;
        w3[s] = product0;
      }
      key = Philox::NextKey(key);
    }
    for (int s = 0; s < kSide; ++s) {
      V::Store(words + Philox::kWords * (done + s * V::kLanes), w0[s], w1[s],
               w2[s], w3[s]);
    }
  }
}

}  // namespace
}  // namespace fedplug::philox

#endif  // FEDPLUG_CORE_PHILOX_WORDS_LOOP_H_
