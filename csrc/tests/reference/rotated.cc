#include "tests/reference/rotated.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/philox.h"
#include "tests/reference/values.h"

namespace fedplug::reference {
namespace {

template <typename W>
std::vector<W> AllLevels(const RotatedCode& code) {
  std::vector<W> all;
  for (const double level : code.levels) all.push_back(static_cast<W>(level));
  for (const double level : code.levels) {
    all.insert(all.begin(), static_cast<W>(-level));
  }
  return all;
}

template <typename W>
std::vector<W> Borders(const RotatedCode& code) {
  const auto all = AllLevels<double>(code);
  std::vector<W> borders;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    borders.push_back(static_cast<W>((all[i] + all[i + 1]) / 2));
  }
  return borders;
}

int Bits(const RotatedCode& code) {
  int bits = 0;
  while ((std::size_t{1} << bits) < 2 * code.levels.size()) ++bits;
  return bits;
}

// Whether an element's sign changes.
bool IsMinus(const RotatedCode& code, std::size_t element) {
  const Philox philox(static_cast<std::uint64_t>(code.first_seed),
                      static_cast<std::uint64_t>(code.second_seed));
  const std::uint64_t draw = element / 128;
  const Philox::Words words = Philox::Draw(
      {static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32),
       philox.stream()[0], philox.stream()[1]},
      philox.key());
  return ((words[element / 32 % 4] >> (element % 32)) & 1) != 0;
}

template <typename W>
void Transform(std::vector<W>* x) {
  for (std::size_t half = 1; half < x->size(); half *= 2) {
    for (std::size_t i = 0; i < x->size(); ++i) {
      if ((i & half) != 0) continue;
      const W left = (*x)[i];
      const W right = (*x)[i + half];
      (*x)[i] = left + right;
      (*x)[i + half] = left - right;
    }
  }
}

template <typename W>
W Sum(std::vector<W> x) {
  while (x.size() > 1) {
    const std::size_t half = x.size() / 2;
    for (std::size_t i = 0; i < half; ++i) x[i] += x[half + i];
    x.resize(half);
  }
  return x[0];
}

}  // namespace

template <typename T>
std::vector<std::uint8_t> EncodeRotated(const std::vector<T>& values,
                                        const RotatedCode& code) {
  using W = Wide<T>;
  const auto size = static_cast<std::size_t>(code.block_size);
  const auto levels = AllLevels<W>(code);
  const auto borders = Borders<W>(code);
  const int bits = Bits(code);
  std::vector<std::uint8_t> scales;
  std::vector<bool> packed;
  for (std::size_t first = 0; first < values.size(); first += size) {
    std::vector<W> x(size, 0);
    W peak = 0;
    bool finite = true;
    for (std::size_t i = 0; i < size && first + i < values.size(); ++i) {
      x[i] = Widen(values[first + i]);
      finite = finite && std::isfinite(x[i]);
      peak = std::max(peak, std::abs(x[i]));
    }
    if (!finite) {
      std::fill(x.begin(), x.end(), W{0});
      peak = 0;
    }
    std::vector<W> squares;
    for (std::size_t i = 0; i < size; ++i) {
      x[i] = peak == 0 ? 0 : x[i] / peak;
      squares.push_back(x[i] * x[i]);
      if (IsMinus(code, first + i)) x[i] = -x[i];
    }
    Transform(&x);
    const W norm = std::sqrt(Sum(squares));
    std::vector<W> products;
    for (const W y : x) {
      const W normal = norm == 0 ? 0 : y / norm;
      const auto number = static_cast<std::size_t>(
          std::count_if(borders.begin(), borders.end(),
                        [=](W border) { return border < normal; }));
      for (int bit = 0; bit < bits; ++bit) {
        packed.push_back(((number >> bit) & 1) != 0);
      }
      products.push_back(y * levels[number]);
    }
    const W product = Sum(products);
    W scale = product == 0 ? 0 : Sum(squares) / product * peak;
    scale = std::min(scale, std::numeric_limits<W>::max());
    if (!finite) scale = std::numeric_limits<W>::quiet_NaN();
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&scale);
    scales.insert(scales.end(), bytes, bytes + sizeof(scale));
  }
  const std::size_t codes_at = scales.size();
  scales.resize(codes_at + (packed.size() + 7) / 8);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (packed[i]) {
      scales[codes_at + i / 8] =
          static_cast<std::uint8_t>(scales[codes_at + i / 8] | 1 << i % 8);
    }
  }
  return scales;
}

template <typename T>
std::optional<std::vector<T>> DecodeRotated(
    const std::vector<std::uint8_t>& data, std::size_t count,
    const RotatedCode& code) {
  using W = Wide<T>;
  const auto size = static_cast<std::size_t>(code.block_size);
  const auto levels = AllLevels<W>(code);
  const auto bits = static_cast<std::size_t>(Bits(code));
  const std::size_t blocks = (count + size - 1) / size;
  const std::size_t codes_at = blocks * sizeof(W);
  const std::size_t all_bits = blocks * size * bits;
  if (data.size() != codes_at + (all_bits + 7) / 8) return std::nullopt;
  const auto bit = [&](std::size_t i) {
    return static_cast<std::size_t>(data[codes_at + i / 8] >> i % 8 & 1);
  };
  for (std::size_t i = all_bits; i % 8 != 0; ++i) {
    if (bit(i) != 0) return std::nullopt;
  }
  std::vector<T> values;
  for (std::size_t b = 0; b < blocks; ++b) {
    W scale;
    std::memcpy(&scale, data.data() + b * sizeof(W), sizeof(W));
    if (!std::isfinite(scale) || std::signbit(scale)) return std::nullopt;
    std::vector<W> x(size);
    for (std::size_t i = 0; i < size; ++i) {
      std::size_t number = 0;
      for (std::size_t k = 0; k < bits; ++k) {
        number |= bit((b * size + i) * bits + k) << k;
      }
      x[i] = levels[number];
    }
    Transform(&x);
    for (std::size_t i = 0; i < size && b * size + i < count; ++i) {
      const W value = x[i] * scale;
      values.push_back(Narrow<T>(IsMinus(code, b * size + i) ? -value : value));
    }
  }
  return values;
}

#define FEDPLUG_INSTANTIATE(T)                                            \
  template std::vector<std::uint8_t> EncodeRotated(const std::vector<T>&, \
                                                   const RotatedCode&);   \
  template std::optional<std::vector<T>> DecodeRotated(                   \
      const std::vector<std::uint8_t>&, std::size_t, const RotatedCode&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
