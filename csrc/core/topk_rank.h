// The exact key at a rank, by radix: a histogram of the leading bits that
// differ, then the same inside the one bin that matters.
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

// The rank-th largest of the keys, counted from 1.
//
// REQUIRES: 1 <= rank <= count
// SHAPE:    keys[count], whose contents are lost
// COST:     two reads of all keys and one write of those in the chosen bin;
//           again for those, 11 bits further down
template <typename Bits>
Ranked<Bits> FindRank(Bits* keys, std::int64_t count, std::int64_t rank) {
  constexpr int kDigitBits = 11;
  constexpr std::int64_t kFew = 256;  // below this a histogram costs more
  std::int64_t above = 0;
  while (count > kFew) {
    std::uint64_t all = ~std::uint64_t{0};
    std::uint64_t any = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      all &= keys[i];
      any |= keys[i];
    }
    const std::uint64_t differing = all ^ any;
    if (differing == 0) return {keys[0], above};
    int width = 0;
    while (width < 64 && (differing >> width) != 0) ++width;
    const int shift = std::max(0, width - kDigitBits);
    constexpr std::uint64_t kMask = (1u << kDigitBits) - 1;
    const auto digit_of = [shift](Bits key) {
      return static_cast<std::size_t>((std::uint64_t{key} >> shift) & kMask);
    };
    // Bits above `width` are the same in all keys; inside the mask they only
    // say which part of the histogram is used.
    std::array<std::uint32_t, kMask + 1> histogram{};
    for (std::int64_t i = 0; i < count; ++i) ++histogram[digit_of(keys[i])];
    std::size_t digit = kMask;
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
  }
  std::nth_element(keys, keys + (rank - 1), keys + count, std::greater<>());
  const Bits key = keys[rank - 1];
  const auto larger = std::count_if(keys, keys + (rank - 1),
                                    [key](Bits other) { return other > key; });
  return {key, above + larger};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_RANK_H_
