// The reference of the encoders of values: line by line as in value_code.h.
#include "tests/reference/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/float_bits.h"
#include "core/base/philox.h"
#include "tests/reference/reference.h"

namespace fedplug::reference {
namespace {

template <typename T>
void Append(const T& value, std::vector<std::uint8_t>* bytes) {
  std::uint8_t raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes->insert(bytes->end(), raw, raw + sizeof(T));
}

template <typename T>
std::vector<float> Noise(const std::vector<T>& values, std::uint64_t seed) {
  std::vector<std::uint8_t> content;
  for (const T& value : values) Append(value, &content);
  const auto low = [](std::uint64_t x) {
    return static_cast<std::uint32_t>(x);
  };
  const std::uint64_t first = seed;
  const std::uint64_t second = Crc32(content);
  const Philox::Words mixed = Philox::Draw(
      {low(first), low(first >> 32), low(second), low(second >> 32)},
      {0x3ec8f720u, 0x02461e29u});
  std::vector<float> noise;
  for (std::uint32_t draw = 0; noise.size() < values.size(); ++draw) {
    for (const std::uint32_t word :
         Philox::Draw({draw, 0, mixed[2], mixed[3]}, {mixed[0], mixed[1]})) {
      noise.push_back(static_cast<float>(word % (1u << 23)) * 0x1p-23f);
    }
  }
  return noise;
}

template <typename T>
T MeanMagnitude(const std::vector<T>& values) {
  const double share = 1.0 / static_cast<double>(values.size());
  std::vector<double> terms;
  for (const T& value : values) {
    terms.push_back(std::abs(static_cast<double>(Widen(value))) * share);
  }
  while (terms.size() > 1) {
    const std::size_t half = (terms.size() + 1) / 2;
    for (std::size_t i = half; i < terms.size(); ++i) {
      terms[i - half] += terms[i];
    }
    terms.resize(half);
  }
  return terms.empty() ? T{} : Narrow<T>(terms[0]);
}

template <typename T>
Quantized<T> Quantize(const std::vector<T>& values, const ValueCode& code,
                      std::uint64_t seed) {
  using W = Wide<T>;
  Quantized<T> q = Unfilled<T>(values.size(), code);
  for (std::size_t s = 0; s < q.scales.size(); ++s) {
    T scale{};
    for (std::size_t i = s * q.block;
         i < std::min(values.size(), (s + 1) * q.block); ++i) {
      if (std::abs(Widen(values[i])) > Widen(scale)) {
        scale = Narrow<T>(std::abs(Widen(values[i])));
      }
    }
    q.scales[s] = code.form == ValueForm::kSign ? MeanMagnitude(values) : scale;
  }
  const std::vector<float> noise = Noise(values, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const W x = Widen(values[i]);
    const W scale = Widen(q.scales[i / q.block]);
    const W relative = scale == 0 ? 0 : x / scale;
    const W exact = relative * static_cast<W>(q.top);
    const W random = static_cast<W>(noise[i]);
    switch (code.form) {
      case ValueForm::kNearest:
        q.levels.push_back(static_cast<int>(std::nearbyint(exact)));
        break;
      case ValueForm::kQsgd:
        q.levels.push_back(static_cast<int>(std::floor(exact)) +
                           (random < exact - std::floor(exact)));
        break;
      default:
        q.levels.push_back(x >= 0 ? 1 : -1);
    }
  }
  return q;
}

// The bins of values, and their means.
template <typename T>
struct Codebook {
  std::vector<int> bins;
  std::vector<T> means;
};

// 1024 terms at a time, the upper half added to the lower half.
double SumOf(std::vector<double> terms) {
  if (terms.empty()) return 0;
  while (terms.size() > 1) {
    std::vector<double> sums;
    for (std::size_t first = 0; first < terms.size(); first += 1024) {
      std::vector<double> part(1024);
      for (std::size_t i = 0;
           i < std::min<std::size_t>(1024, terms.size() - first); ++i) {
        part[i] = terms[first + i];
      }
      while (part.size() > 1) {
        const std::size_t half = part.size() / 2;
        for (std::size_t i = 0; i < half; ++i) part[i] += part[half + i];
        part.resize(half);
      }
      sums.push_back(part[0]);
    }
    terms = sums;
  }
  return terms[0];
}

template <typename T>
Codebook<T> MakeCodebook(const std::vector<T>& values, const ValueCode& code) {
  double largest = 0;
  for (const T& value : values) {
    largest = std::max(largest, std::abs(static_cast<double>(Widen(value))));
  }
  int power = -1022;
  if (largest >= 0x1p-1022) power = std::min(1022, std::ilogb(largest));
  std::vector<double> scaled;
  for (const T& value : values) {
    scaled.push_back(std::ldexp(static_cast<double>(Widen(value)), -power));
  }
  const auto n = static_cast<double>(values.size());
  const double mean = SumOf(scaled) * (1 / std::max(n, 1.0));
  std::vector<double> squares;
  for (const double x : scaled) squares.push_back((x - mean) * (x - mean));
  const double sigma = std::sqrt(SumOf(squares) * (1 / std::max(n - 1, 1.0)));

  int width = 0;
  while ((std::size_t{1} << width) <= values.size()) ++width;
  const int bins = 1 << code.bits;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(bins));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(bins));
  Codebook<T> book;
  for (const double x : scaled) {
    const double exact = sigma == 0 ? 0 : (x - mean) * (bins / (6 * sigma));
    const double nearest = std::nearbyint(exact) + bins / 2;
    const int bin = static_cast<int>(
        std::max(0.0, std::min(static_cast<double>(bins - 1), nearest)));
    book.bins.push_back(bin);
    sums[static_cast<std::size_t>(bin)] +=
        static_cast<std::int64_t>(std::ldexp(x, 60 - width));
    ++counts[static_cast<std::size_t>(bin)];
  }
  for (std::size_t b = 0; b < sums.size(); ++b) {
    const std::int64_t cut = counts[b] == 0 ? 0 : sums[b] / counts[b];
    book.means.push_back(
        Narrow<T>(std::ldexp(static_cast<double>(cut), width - 60 + power)));
  }
  return book;
}

}  // namespace

template <typename T>
std::vector<std::uint8_t> EncodeValues(const std::vector<T>& values,
                                       const ValueCode& code,
                                       std::uint64_t seed) {
  std::vector<std::uint8_t> bytes;
  if (code.form == ValueForm::kFloat16 || code.form == ValueForm::kBFloat16) {
    for (const T& value : values) {
      const double x = static_cast<double>(Widen(value));
      if (code.form == ValueForm::kFloat16) {
        Append(Narrow<Half>(x), &bytes);
      } else {
        Append(Narrow<BFloat16>(x), &bytes);
      }
    }
    return bytes;
  }
  if (code.form == ValueForm::kBounded) return EncodeBounded(values, code);
  if (code.form == ValueForm::kBfp) return EncodeBfp(values, code);
  if (code.form == ValueForm::kCodebook) {
    const Codebook<T> book = MakeCodebook(values, code);
    bytes = Header(code);
    for (const T& mean : book.means) Append(mean, &bytes);
    PackBits(book.bins, code.bits, &bytes);
    return bytes;
  }
  Quantized<T> q = Quantize(values, code, seed);
  bytes = Header(code);
  for (const T& scale : q.scales) Append(scale, &bytes);
  for (int& level : q.levels) {
    level = code.form == ValueForm::kSign ? level > 0 : level + q.top;
  }
  PackBits(q.levels, BitsOfLevel(code), &bytes);
  return bytes;
}

template <typename T>
std::vector<T> QuantizedValues(const std::vector<T>& values,
                               const ValueCode& code, std::uint64_t seed) {
  std::vector<T> rounded;
  if (code.form == ValueForm::kFloat16 || code.form == ValueForm::kBFloat16) {
    for (const T& value : values) {
      const double x = static_cast<double>(Widen(value));
      const float cast = code.form == ValueForm::kFloat16
                             ? Widen(Narrow<Half>(x))
                             : Widen(Narrow<BFloat16>(x));
      rounded.push_back(Narrow<T>(static_cast<double>(cast)));
    }
    return rounded;
  }
  if (code.form == ValueForm::kBounded) {
    return *DecodeBounded<T>(EncodeBounded(values, code), values.size(), code);
  }
  if (code.form == ValueForm::kBfp) {
    return *DecodeBfp<T>(EncodeBfp(values, code), values.size(), code);
  }
  if (code.form == ValueForm::kCodebook) {
    const Codebook<T> book = MakeCodebook(values, code);
    for (const int bin : book.bins) {
      rounded.push_back(book.means[static_cast<std::size_t>(bin)]);
    }
    return rounded;
  }
  const Quantized<T> q = Quantize(values, code, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Wide<T> relative =
        static_cast<Wide<T>>(q.levels[i]) / static_cast<Wide<T>>(q.top);
    rounded.push_back(Narrow<T>(Widen(q.scales[i / q.block]) * relative));
  }
  return rounded;
}

#define FEDPLUG_INSTANTIATE(T)                                   \
  template std::vector<std::uint8_t> EncodeValues(               \
      const std::vector<T>&, const ValueCode&, std::uint64_t);   \
  template std::vector<T> QuantizedValues(const std::vector<T>&, \
                                          const ValueCode&, std::uint64_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
