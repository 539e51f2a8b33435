// The reference of the form kBfp: line by line as in docs/wire-format.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/float_bits.h"
#include "tests/reference/values.h"

namespace fedplug::reference {
namespace {

constexpr std::size_t kHeaderBytes = 2;

// The lowest and the highest exponent of a step.
template <typename T>
std::pair<int, int> Exponents() {
  if (std::is_same_v<T, double>) return {-1021, 1023};
  if (std::is_same_v<T, Half>) return {-24, 15};
  return {-125, 127};
}

int Top(const ValueCode& code) { return (1 << (code.bits - 1)) - 1; }

template <typename T>
std::int16_t ExponentOf(double largest, int top) {
  const auto [lowest, highest] = Exponents<T>();
  int exponent = lowest;
  while (exponent < highest && std::ldexp(top + 0.5, exponent) < largest) {
    ++exponent;
  }
  return static_cast<std::int16_t>(exponent);
}

}  // namespace

template <typename T>
std::vector<std::uint8_t> EncodeBfp(const std::vector<T>& values,
                                    const ValueCode& code) {
  const int top = Top(code);
  const auto block = static_cast<std::size_t>(code.block_size);
  std::vector<std::uint8_t> bytes = Header(code);
  std::vector<int> levels;
  for (std::size_t first = 0; first < values.size(); first += block) {
    std::vector<double> some;
    double largest = 0;
    for (std::size_t i = first; i < std::min(first + block, values.size());
         ++i) {
      some.push_back(static_cast<double>(Widen(values[i])));
      largest = std::max(largest, std::abs(some.back()));
    }
    const std::int16_t exponent = ExponentOf<T>(largest, top);
    std::uint8_t raw[sizeof(exponent)];
    std::memcpy(raw, &exponent, sizeof(exponent));
    bytes.insert(bytes.end(), raw, raw + sizeof(exponent));
    for (const double x : some) {
      const double level = std::nearbyint(std::ldexp(x, -exponent));
      levels.push_back(static_cast<int>(std::clamp<double>(level, -top, top)) +
                       top);
    }
  }
  PackBits(levels, code.bits, &bytes);
  return bytes;
}

template <typename T>
std::optional<std::vector<T>> DecodeBfp(const std::vector<std::uint8_t>& bytes,
                                        std::size_t count,
                                        const ValueCode& code) {
  const auto [lowest, highest] = Exponents<T>();
  const int top = Top(code);
  const auto block = static_cast<std::size_t>(code.block_size);
  std::vector<std::int16_t> exponents((count + block - 1) / block);
  const std::size_t exponent_bytes = exponents.size() * sizeof(std::int16_t);
  if (exponent_bytes > 0) {
    std::memcpy(exponents.data(), bytes.data() + kHeaderBytes, exponent_bytes);
  }
  for (const std::int16_t exponent : exponents) {
    if (exponent < lowest || exponent > highest) return std::nullopt;
  }
  const std::vector<int> levels =
      UnpackBits(bytes, kHeaderBytes + exponent_bytes, code.bits);
  std::vector<T> values;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (i >= count) {
      if (levels[i] != 0) return std::nullopt;
      continue;
    }
    if (levels[i] > 2 * top) return std::nullopt;
    const double level = levels[i] - top;
    values.push_back(Narrow<T>(std::ldexp(level, exponents[i / block])));
  }
  return values;
}

#define FEDPLUG_INSTANTIATE(T)                                        \
  template std::vector<std::uint8_t> EncodeBfp(const std::vector<T>&, \
                                               const ValueCode&);     \
  template std::optional<std::vector<T>> DecodeBfp(                   \
      const std::vector<std::uint8_t>&, std::size_t, const ValueCode&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
