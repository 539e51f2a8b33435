// A step from one word to another as a symbol and low bits, as
// docs/wire-format.md specifies.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_STEPS_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_STEPS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/codes/difference/parts.h"

namespace fedplug::differences {

// The leading bits of a magnitude, after its first one, that its symbol holds.
template <typename Word>
inline constexpr int kLeading = sizeof(Word) == 8 ? 1 : 2;

struct CodedStep {
  std::uint8_t symbol;
  int width;          // of the low bits
  std::uint64_t low;  // below 2^width
};

// REQUIRES: step != 0, modulo 2^kWordBits
template <typename Word>
CodedStep CodeStep(Word step) {
  const bool is_negative = step >> (kWordBits<Word> - 1) != 0;
  const std::uint64_t magnitude =
      static_cast<Word>(is_negative ? Word{0} - step : step);
  const int top = 63 - __builtin_clzll(magnitude);
  const int width = top > kLeading<Word> ? top - kLeading<Word> : 0;
  const auto bucket = (static_cast<std::uint64_t>(width)
                       << kLeading<Word>)+(magnitude >> width) -
                      1;
  return {static_cast<std::uint8_t>(2 * bucket + (is_negative ? 1 : 0)), width,
          magnitude & ((std::uint64_t{1} << width) - 1)};
}

// Symbols from here on stand for no step.
template <typename Word>
inline constexpr int kSymbolEnd =
    2 * (((kWordBits<Word> - kLeading<Word>) << kLeading<Word>)+(
            1 << kLeading<Word>)-1);

// A symbol stands for the steps base + low bits, negated if it is odd.
template <typename Word>
struct StepTable {
  std::array<Word, 256> base{};
  std::array<std::uint8_t, 256> width{};

  constexpr StepTable() {
    constexpr int kShift = kLeading<Word>;
    for (std::size_t i = 0; i < kSymbolEnd<Word>; ++i) {
      const auto place = static_cast<int>(i / 2 + 1);
      const int low = place >> kShift > 0 ? (place >> kShift) - 1 : 0;
      const auto high = static_cast<std::uint64_t>(place - (low << kShift));
      width[i] = static_cast<std::uint8_t>(low);
      base[i] = static_cast<Word>(high << low);
    }
  }
};

template <typename Word>
inline constexpr StepTable<Word> kSteps;

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_STEPS_H_
