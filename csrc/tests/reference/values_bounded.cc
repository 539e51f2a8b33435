// The reference of the form kBounded: line by line as in docs/wire-format.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/float_bits.h"
#include "tests/reference/values.h"

namespace fedplug::reference {
namespace {

struct Grid {
  int power = 0;  // p is 2^power
  double step = 0;
  double first = 0;
  int last = 0;

  double MultipleOf(double x) const {
    return step == 0 ? 0 : std::nearbyint(std::ldexp(x, power) * (1 / step));
  }
};

// Bits of the significand, and the power of two that is the smallest number.
template <typename T>
std::pair<int, int> Digits() {
  if (std::is_same_v<T, double>) return {53, -1074};
  if (std::is_same_v<T, float>) return {24, -149};
  if (std::is_same_v<T, Half>) return {11, -24};
  return {8, -133};
}

template <typename T>
Grid GridOf(double lowest, double highest, float relative) {
  const double largest = std::max(std::abs(lowest), std::abs(highest));
  Grid grid;
  grid.power = 1022;
  if (largest >= 0x1p-1022) grid.power = -std::min(1022, std::ilogb(largest));
  const auto [significand, smallest] = Digits<T>();
  const double w =
      (std::ldexp(highest, grid.power) - std::ldexp(lowest, grid.power)) *
      (2 * static_cast<double>(relative) * (1 - std::ldexp(1, -50)));
  const double e =
      std::ldexp(largest, grid.power) *
          (1.25 * std::ldexp(1, 1 - significand) + std::ldexp(1, -49)) +
      std::ldexp(1, std::max(-1022, smallest + 1 + grid.power));
  const double power_of_two = w == 0 ? 0 : std::ldexp(1, std::ilogb(w));
  grid.step = std::max(w - e, power_of_two);
  grid.first = grid.MultipleOf(lowest);
  grid.last = static_cast<int>(grid.MultipleOf(highest) - grid.first);
  return grid;
}

int BitsOf(float relative) {
  const int last =
      static_cast<int>(std::floor(1 / static_cast<double>(relative))) + 2;
  int bits = 0;
  while ((1 << bits) <= last) ++bits;
  return bits;
}

}  // namespace

template <typename T>
std::vector<std::uint8_t> EncodeBounded(const std::vector<T>& values,
                                        const ValueCode& code) {
  double lowest = 0;
  double highest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(Widen(values[i]));
    lowest = i == 0 ? x : std::min(lowest, x);
    highest = i == 0 ? x : std::max(highest, x);
  }
  std::vector<std::uint8_t> bytes = Header(code);
  for (const double extreme : {lowest, highest}) {
    const T value = Narrow<T>(extreme == 0 ? 0.0 : extreme);
    std::uint8_t raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
  }
  const Grid grid = GridOf<T>(lowest, highest, code.relative);
  const int bits = BitsOf(code.relative);
  const int low_bits = std::max(0, bits - 8);
  std::vector<int> low;
  std::vector<int> high;
  for (const T& value : values) {
    const int level = static_cast<int>(
        grid.MultipleOf(static_cast<double>(Widen(value))) - grid.first);
    low.push_back(level % (1 << low_bits));
    high.push_back(level >> low_bits);
  }
  PackBits(low, low_bits, &bytes);
  PackBits(high, bits - low_bits, &bytes);
  return bytes;
}

template <typename T>
std::optional<std::vector<T>> DecodeBounded(
    const std::vector<std::uint8_t>& bytes, std::size_t count,
    const ValueCode& code) {
  T extremes[2];
  std::memcpy(extremes, bytes.data() + sizeof(float), sizeof(extremes));
  const auto lowest = static_cast<double>(Widen(extremes[0]));
  const auto highest = static_cast<double>(Widen(extremes[1]));
  for (const double extreme : {lowest, highest}) {
    if (!IsFinite(extreme) || (extreme == 0 && std::signbit(extreme))) {
      return std::nullopt;
    }
  }
  if (lowest > highest) return std::nullopt;

  const int bits = BitsOf(code.relative);
  const int low_bits = std::max(0, bits - 8);
  const std::size_t low_at = sizeof(float) + sizeof(extremes);
  const std::size_t high_at =
      low_at + (count * static_cast<std::size_t>(low_bits) + 7) / 8;
  const std::vector<std::uint8_t> low_plane(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(high_at));
  std::vector<int> low(count);
  if (low_bits > 0) low = UnpackBits(low_plane, low_at, low_bits);
  const std::vector<int> high = UnpackBits(bytes, high_at, bits - low_bits);
  const auto is_set = [](int level) { return level != 0; };
  const auto after = static_cast<std::ptrdiff_t>(count);
  if (std::any_of(low.begin() + after, low.end(), is_set) ||
      std::any_of(high.begin() + after, high.end(), is_set)) {
    return std::nullopt;
  }
  const Grid grid = GridOf<T>(lowest, highest, code.relative);
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    const int level = (high[i] << low_bits) + low[i];
    if (level > grid.last) return std::nullopt;
    const double value =
        std::ldexp((grid.first + level) * grid.step, -grid.power);
    values.push_back(Narrow<T>(std::min(std::max(value, lowest), highest)));
  }
  return values;
}

#define FEDPLUG_INSTANTIATE(T)                                            \
  template std::vector<std::uint8_t> EncodeBounded(const std::vector<T>&, \
                                                   const ValueCode&);     \
  template std::optional<std::vector<T>> DecodeBounded(                   \
      const std::vector<std::uint8_t>&, std::size_t, const ValueCode&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
