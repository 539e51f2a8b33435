// The inner loop of rans::Encoder, written once over registers of lanes:
// V is a class of rans_avx512.cc, rans_avx2.cc or rans_neon.cc.
//
// A quotient of integers is that of their floats, rounded down, or one less:
// a state is below f * 2^20 when it is divided by f, so that the quotient is
// below 2^20, and the reciprocal is too small by 2^-21 of itself, which is more
// than three roundings can add, each 2^-23 at most, and loses less than one.
#ifndef FEDPLUG_TARGET
#error "define FEDPLUG_TARGET before including core/codes/rans/encode_loop.h"
#endif
#ifndef FEDPLUG_CORE_CODES_RANS_ENCODE_LOOP_H_
#define FEDPLUG_CORE_CODES_RANS_ENCODE_LOOP_H_

#include <cstdint>

#include "core/codes/rans/rans.h"

namespace fedplug::rans {
namespace {

constexpr float kBelowOne = 1.0f - 1.0f / (1 << 21);

template <typename V>
FEDPLUG_TARGET std::int64_t EncodeGroups(
    const EncoderTable& table, const std::uint8_t* symbols, std::int64_t n,
    const std::uint16_t* begin, std::uint32_t* states, std::uint16_t** next) {
  using Register = typename V::Register;
  constexpr int kRegisters = kMostLanes / V::kLanes;
  const Register residue = V::Broadcast(kScale - 1);
  const Register scale = V::Broadcast(kScale);
  const Register one = V::Broadcast(1);
  const typename V::Lookup lookup(table);
  Register x[kRegisters];
  for (int r = 0; r < kRegisters; ++r) x[r] = V::Load(states + r * V::kLanes);
  std::uint16_t* word = *next;
  std::int64_t left = n;
  for (; left >= kMostLanes && word - begin >= kMostLanes; left -= kMostLanes) {
    const std::uint8_t* const group = symbols + left - kMostLanes;
    for (int r = kRegisters - 1; r >= 0; --r) {
      const Register entry = lookup.Of(group + r * V::kLanes);
      const Register frequency = V::Plus(V::And(entry, residue), one);
      const auto share = V::Divide(kBelowOne, frequency);
      const auto full =
          V::AtLeast(V::template Shifted<32 - kScaleBits>(x[r]), frequency);
      word = V::StoreBefore(word, x[r], full);
      x[r] = V::Choose(full, V::template Shifted<16>(x[r]), x[r]);
      const Register quotient = V::Product(x[r], share);
      const Register start = V::template Shifted<kScaleBits>(entry);
      const Register rest = V::Minus(x[r], V::Times(quotient, frequency));
      const Register coded =
          V::Plus(V::Plus(V::Times(quotient, scale), start), rest);
      x[r] = V::PlusWhere(V::AtLeast(rest, frequency), coded,
                          V::Minus(scale, frequency));
    }
  }
  for (int r = 0; r < kRegisters; ++r) V::Store(states + r * V::kLanes, x[r]);
  *next = word;
  return n - left;
}

}  // namespace
}  // namespace fedplug::rans

#endif  // FEDPLUG_CORE_CODES_RANS_ENCODE_LOOP_H_
