// The exact key at a rank, by radix: a histogram of the leading bits of the
// range that the keys are in, then the same inside the one bin that matters.
#ifndef FEDPLUG_CORE_TOPK_RANK_H_
#define FEDPLUG_CORE_TOPK_RANK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

namespace fedplug::topk {

template <typename Bits>
struct Ranked {
  Bits key;
  std::int64_t above;  // how many keys are larger
};

// The number of bits of a number: none for 0.
template <typename Bits>
int BitWidth(Bits number) {
  return number == 0 ? 0 : 64 - __builtin_clzll(number);
}

// The rank-th largest of the keys, counted from 1.
//
// REQUIRES: 1 <= rank <= count, all keys are in [lo, hi)
// SHAPE:    keys[count], whose contents are lost
// COST:     two reads of all keys and one write of those in the chosen bin.
//           Again for those, up to 11 bits further down
template <typename Bits>
Ranked<Bits> FindRank(Bits* keys, std::int64_t count, std::int64_t rank,
                      Bits lo, Bits hi) {
  constexpr int kMostDigitBits = 11;
  constexpr std::int64_t kFew = 16;  // below this a histogram costs more
  std::int64_t above = 0;
  int width = BitWidth(static_cast<Bits>(hi - lo - 1));
  while (count > kFew && width > 0) {
    // Some keys to a bin: more bins would only take longer to walk.
    const int digit_bits =
        std::min({kMostDigitBits, width,
                  BitWidth(static_cast<std::uint64_t>(count)) - 1});
    const int shift = width - digit_bits;
    const auto digit_of = [lo, shift](Bits key) {
      return static_cast<std::size_t>(static_cast<Bits>(key - lo) >> shift);
    };
    std::array<std::uint32_t, 1u << kMostDigitBits> histogram;
    std::size_t digit = (std::size_t{1} << digit_bits) - 1;
    std::fill_n(histogram.begin(), digit + 1, 0u);
    for (std::int64_t i = 0; i < count; ++i) ++histogram[digit_of(keys[i])];
    for (; rank > histogram[digit]; --digit) {
      rank -= histogram[digit];
      above += histogram[digit];
    }
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const Bits key = keys[i];
      keys[kept] = key;
      kept += digit_of(key) == digit;
    }
    count = kept;
    lo = static_cast<Bits>(lo + (static_cast<Bits>(digit) << shift));
    width = shift;
  }
  if (width == 0) return {lo, above};
  std::nth_element(keys, keys + (rank - 1), keys + count, std::greater<>());
  const Bits key = keys[rank - 1];
  const auto larger = std::count_if(keys, keys + (rank - 1),
                                    [key](Bits other) { return other > key; });
  return {key, above + larger};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_RANK_H_
