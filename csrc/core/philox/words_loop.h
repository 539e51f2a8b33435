// The loop of words.h, written once over the Words of simd/avx512.h or avx2.h:
// registers of which each 64-bit lane has one word of a draw in its lower half.
// The multiplication ignores the upper half, so a product is the next word in
// place, and lanes are shuffled only at the end.
#ifndef FEDPLUG_TARGET
#error "define FEDPLUG_TARGET before including core/philox/words_loop.h"
#endif
#ifndef FEDPLUG_CORE_PHILOX_WORDS_LOOP_H_
#define FEDPLUG_CORE_PHILOX_WORDS_LOOP_H_

#include <cstdint>

#include "core/base/always_inline.h"
#include "core/philox/words.h"

namespace fedplug::philox {
namespace {

// The number of words per step, and of registers.
template <typename V>
constexpr int kWordsAtOnce = Philox::kWords * V::kSideBySide * V::kLanes;
template <typename V>
constexpr int kRegisters = 2 * V::kSideBySide;

// The words of the draws from first_draw on, one draw after the other.
template <typename V>
FEDPLUG_TARGET FEDPLUG_ALWAYS_INLINE void DrawAtOnce(
    const Philox& philox, std::int64_t first_draw,
    typename V::Register (&words)[kRegisters<V>]) {
  using Register = typename V::Register;
  // The number of independent registers.
  constexpr int kSide = V::kSideBySide;
  const Register factor0 = V::Broadcast(Philox::kFactors[0]);
  const Register factor2 = V::Broadcast(Philox::kFactors[1]);
  Register w0[kSide], w1[kSide], w2[kSide], w3[kSide];
  for (int s = 0; s < kSide; ++s) {
    w0[s] = V::Iota(first_draw + s * V::kLanes);
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
    V::InOrder(w0[s], w1[s], w2[s], w3[s], &words[2 * s], &words[2 * s + 1]);
  }
}

template <typename V>
FEDPLUG_TARGET void VectorWords(const Philox& philox, std::int64_t first_draw,
                                std::int64_t draws, std::uint32_t* words) {
  constexpr int kAtOnce = kWordsAtOnce<V>;
  static_assert(kGroup * Philox::kWords % kAtOnce == 0);
  for (std::int64_t done = 0; done < draws * Philox::kWords; done += kAtOnce) {
    typename V::Register drawn[kRegisters<V>];
    DrawAtOnce<V>(philox, first_draw + done / Philox::kWords, drawn);
    for (int r = 0; r < kRegisters<V>; ++r) {
      V::Store(words + done + r * (kAtOnce / kRegisters<V>), drawn[r]);
    }
  }
}

}  // namespace
}  // namespace fedplug::philox

#endif  // FEDPLUG_CORE_PHILOX_WORDS_LOOP_H_
