#include "core/codes/rans/symbol_frequencies.h"

#include <algorithm>
#include <numeric>

#include "core/index_code.h"

namespace fedplug {
namespace {

constexpr std::int64_t kScale = rans::kScale;

std::int64_t BarCount(int bits) { return (std::int64_t{1} << bits) - 1; }

}  // namespace

rans::Frequencies FrequenciesOf(const SymbolCounts& counts) {
  const std::int64_t all =
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t different =
      std::count_if(counts.begin(), counts.end(),
                    [](std::int64_t count) { return count > 0; });
  const auto is_rare = [&](std::int64_t count) {
    return count > 0 && count * (kScale - different) < all;
  };
  std::int64_t left = kScale;
  std::int64_t sharing = all;
  for (const std::int64_t count : counts) {
    if (!is_rare(count)) continue;
    left -= 1;
    sharing -= count;
  }
  // At least one symbol is not rare: s rare ones are fewer than n s / (4096 -
  // s) < n symbols. Each of the others gets 1 or more: its count is at least n
  // / (4096 - s), which is at least sharing / left.
  rans::Frequencies frequencies{};
  std::int64_t so_far = 0;
  std::int64_t given = 0;
  for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (is_rare(counts[symbol])) {
      frequencies[symbol] = 1;
      continue;
    }
    so_far += counts[symbol];
    const std::int64_t up_to_here = so_far * left / sharing;
    frequencies[symbol] = static_cast<std::uint32_t>(up_to_here - given);
    given = up_to_here;
  }
  return frequencies;
}

std::vector<std::uint8_t> FrequenciesToBytes(
    const rans::Frequencies& frequencies, int bits) {
  std::vector<std::int32_t> bars;
  std::int32_t place = -1;
  while (static_cast<std::int64_t>(bars.size()) < BarCount(bits)) {
    place += static_cast<std::int32_t>(frequencies[bars.size()]) + 1;
    bars.push_back(place);
  }
  std::vector<std::uint8_t> bytes;
  const Status status =
      EncodeIndices(bars.data(), BarCount(bits), kScale + BarCount(bits),
                    IndexForm::kRice, &bytes);
  static_cast<void>(status);  // bars ascend and are in range
  return bytes;
}

Status FrequenciesFromBytes(const std::uint8_t* data, std::int64_t bytes,
                            int bits, rans::Frequencies* frequencies) {
  std::array<std::int32_t, 255> bars;
  const Status status =
      DecodeIndices(data, bytes, BarCount(bits), kScale + BarCount(bits),
                    IndexForm::kRice, bars.data());
  if (!status.ok()) {
    return {status.code(),
            "symbol code: its frequencies are no " + status.message()};
  }
  frequencies->fill(0);
  std::int32_t previous = -1;
  std::uint32_t left = rans::kScale;
  for (std::size_t i = 0; i < static_cast<std::size_t>(BarCount(bits)); ++i) {
    (*frequencies)[i] = static_cast<std::uint32_t>(bars[i] - previous - 1);
    left -= (*frequencies)[i];
    previous = bars[i];
  }
  (*frequencies)[static_cast<std::size_t>(BarCount(bits))] = left;
  return {};
}

}  // namespace fedplug
