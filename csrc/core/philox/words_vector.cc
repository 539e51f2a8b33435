// The loops of words.h, written once over the Words and Floats of simd/avx512.h or avx2.h, and compiled
// for both. In registers of words, each 64-bit lane has one word of a draw in its lower
// half. The multiplication ignores the upper half, so a product is the next word in place, and lanes are
// shuffled only at the end.
#include <cstdint>

#include "core/base/floats.h"
#include "core/philox/words.h"
#include "core/simd/vector.h"

#if FEDPLUG_SIMD_X86 && defined(FEDPLUG_VECTOR)

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
    w0[s] = V::Iota(static_cast<std::uint64_t>(first_draw + s * V::kLanes));
    w1[s] = w0[s] >> 32;
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
      w0[s] = V::Xor(product2 >> 32, w1[s], key0);
      w2[s] = V::Xor(product0 >> 32, w3[s], key1);
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

template <SimdLevel kLevel>
WordsLoop* VectorWordsLoop() {
  return VectorWords<FEDPLUG_VECTOR::Words>;
}
template WordsLoop* VectorWordsLoop<FEDPLUG_VECTOR_LEVEL>();

}  // namespace fedplug::philox

namespace fedplug::value_loops {
namespace {

// All quotients of a step come first, so that the processor divides while it draws.
// A float with so large a number added to it, and below 2^22, has it as the
// lowest bits of its own.
constexpr float kNoFraction = 0x1.8p23f;

// As Philox::ToUniform.
template <typename F, typename Register>
FEDPLUG_TARGET FEDPLUG_ALWAYS_INLINE typename F::Register Uniform(
    Register words) {
  constexpr std::uint64_t kFraction = 0x007fffff007fffff;
  constexpr std::uint64_t kOne = 0x3f8000003f800000;
  return typename F::Register((words & kFraction) | kOne) - 1.0f;
}

template <typename V, typename F>
FEDPLUG_TARGET void DitherAtRandom(const Philox& philox,
                                   std::int64_t first_draw, const float* x,
                                   std::int64_t n, float scale, int top,
                                   std::uint8_t* levels) {
  using Register = typename F::Register;
  constexpr int kRegisters = philox::kRegisters<V>;
  const auto whole = static_cast<float>(top);
  const Register down = F::Broadcast(kNoFraction + static_cast<float>(top));
  const Register up = F::Broadcast(kNoFraction + static_cast<float>(top + 1));
  for (std::int64_t done = 0; done < n; done += kRegisters * F::kLanes) {
    Register exact[kRegisters];
    for (int r = 0; r < kRegisters; ++r) {
      exact[r] = F::Load(x + done + r * F::kLanes) / scale * whole;
    }
    typename V::Register words[kRegisters];
    philox::DrawAtOnce<V>(philox, first_draw + done / Philox::kWords, words);
    for (int r = 0; r < kRegisters; ++r) {
      const Register below = F::Floor(exact[r]);
      const auto goes_up = Uniform<F>(words[r]) < exact[r] - below;
      F::StoreBytes(levels + done + r * F::kLanes,
                    below + (goes_up ? up : down));
    }
  }
}

}  // namespace

template <SimdLevel kLevel>
DitherLoops VectorDitherLoops() {
  return {DitherAtRandom<FEDPLUG_VECTOR::Words, FEDPLUG_VECTOR::Floats>};
}
template DitherLoops VectorDitherLoops<FEDPLUG_VECTOR_LEVEL>();

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_SIMD_X86
