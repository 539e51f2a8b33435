// The reference of the symbol code: line by line as in docs/wire-format.md.
#include <cstddef>
#include <utility>

#include "tests/reference/reference.h"

namespace fedplug::reference {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kScale = 4096;

std::size_t LanesFor(std::size_t count) { return count < 65536 ? 4 : 32; }

Bytes Pack(const Bytes& symbols, int bits) {
  Bytes packed((symbols.size() * static_cast<std::size_t>(bits) + 7) / 8);
  std::size_t place = 0;
  for (const std::uint8_t symbol : symbols) {
    for (int bit = 0; bit < bits; ++bit, ++place) {
      if (((symbol >> bit) & 1) == 0) continue;
      packed[place / 8] =
          static_cast<std::uint8_t>(packed[place / 8] | (1u << (place % 8)));
    }
  }
  return packed;
}

Numbers FrequenciesOf(const Bytes& symbols, int bits) {
  Numbers counts(std::size_t{1} << bits);
  for (const std::uint8_t symbol : symbols) ++counts[symbol];
  std::int64_t different = 0;
  for (const std::int64_t count : counts) different += count > 0 ? 1 : 0;
  const auto all = static_cast<std::int64_t>(symbols.size());
  Numbers frequencies(counts.size());
  std::int64_t left = kScale;
  std::int64_t sharing = all;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0 || counts[s] * (kScale - different) >= all) continue;
    frequencies[s] = 1;
    left -= 1;
    sharing -= counts[s];
    counts[s] = 0;
  }
  std::int64_t before = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    const std::int64_t after = before + counts[s];
    frequencies[s] += after * left / sharing - before * left / sharing;
    before = after;
  }
  return frequencies;
}

std::int64_t StartOf(const Numbers& frequencies, std::size_t symbol) {
  std::int64_t start = 0;
  for (std::size_t s = 0; s < symbol; ++s) start += frequencies[s];
  return start;
}

void Append(std::int64_t number, int bytes, Bytes* code) {
  for (int i = 0; i < bytes; ++i) {
    code->push_back(static_cast<std::uint8_t>((number >> (8 * i)) & 0xff));
  }
}

// The number in `bytes` bytes at *place, which advances. Empty at the end.
std::optional<std::int64_t> Read(const Bytes& code, std::size_t bytes,
                                 std::size_t* place) {
  if (*place + bytes > code.size()) return std::nullopt;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    number |= std::int64_t{code[*place + i]} << (8 * i);
  }
  *place += bytes;
  return number;
}

}  // namespace

Bytes EncodeSymbols(const Bytes& symbols, int bits) {
  const Bytes packed = Pack(symbols, bits);
  Bytes as_they_are = {0};
  as_they_are.insert(as_they_are.end(), packed.begin(), packed.end());
  if (symbols.empty()) return as_they_are;

  const Numbers frequencies = FrequenciesOf(symbols, bits);
  std::vector<std::int32_t> bars;
  for (std::size_t s = 0; s + 1 < frequencies.size(); ++s) {
    bars.push_back(static_cast<std::int32_t>(StartOf(frequencies, s + 1) +
                                             static_cast<std::int64_t>(s)));
  }
  const Bytes table = EncodeIndices(bars);

  Numbers states(LanesFor(symbols.size()), 65536);
  Numbers words;  // the last one first
  for (std::size_t i = symbols.size(); i-- > 0;) {
    std::int64_t& x = states[i % states.size()];
    const std::int64_t f = frequencies[symbols[i]];
    if (x >= f << 20) {
      words.push_back(x % 65536);
      x /= 65536;
    }
    x = x / f * kScale + StartOf(frequencies, symbols[i]) + x % f;
  }
  Bytes code = {static_cast<std::uint8_t>(table.size())};
  code.insert(code.end(), table.begin(), table.end());
  for (const std::int64_t state : states) Append(state, 4, &code);
  for (; !words.empty(); words.pop_back()) Append(words.back(), 2, &code);
  return code.size() < as_they_are.size() ? code : as_they_are;
}

std::optional<Bytes> DecodeSymbols(const Bytes& code, std::int64_t count,
                                   int bits) {
  Bytes symbols;
  if (code.empty()) return std::nullopt;
  if (code[0] == 0) {
    std::size_t place = 8;
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint8_t symbol = 0;
      for (int bit = 0; bit < bits; ++bit, ++place) {
        if (place / 8 >= code.size()) return std::nullopt;
        const int set = (code[place / 8] >> (place % 8)) & 1;
        symbol = static_cast<std::uint8_t>(symbol | set << bit);
      }
      symbols.push_back(symbol);
    }
    const Bytes packed = Pack(symbols, bits);
    if (Bytes(code.begin() + 1, code.end()) != packed) return std::nullopt;
    return symbols;
  }

  std::size_t place = std::size_t{1} + code[0];
  if (count == 0 || place > code.size()) return std::nullopt;
  const std::int64_t bar_count = (std::int64_t{1} << bits) - 1;
  const auto bars =
      DecodeIndices(Bytes(code.begin() + 1,
                          code.begin() + static_cast<std::ptrdiff_t>(place)),
                    bar_count, kScale + bar_count);
  if (!bars) return std::nullopt;
  Numbers frequencies;
  std::int64_t left = kScale;
  std::int64_t previous = -1;
  for (const std::int32_t bar : *bars) {
    frequencies.push_back(bar - previous - 1);
    left -= frequencies.back();
    previous = bar;
  }
  frequencies.push_back(left);

  Numbers states(LanesFor(static_cast<std::size_t>(count)));
  for (std::int64_t& state : states) {
    const auto read = Read(code, 4, &place);
    if (!read || *read < 65536) return std::nullopt;
    state = *read;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t& x = states[static_cast<std::size_t>(i) % states.size()];
    std::size_t s = 0;
    while (StartOf(frequencies, s + 1) <= x % kScale) ++s;
    symbols.push_back(static_cast<std::uint8_t>(s));
    x = frequencies[s] * (x / kScale) + x % kScale - StartOf(frequencies, s);
    if (x >= 65536) continue;
    const auto word = Read(code, 2, &place);
    if (!word) return std::nullopt;
    x = x * 65536 + *word;
  }
  if (place != code.size()) return std::nullopt;
  for (const std::int64_t state : states) {
    if (state != 65536) return std::nullopt;
  }
  return symbols;
}

}  // namespace fedplug::reference
