// Shared by the reference encoders and decoders of values: the levels and
// scales of a code, and their encoding. Only values*.cc include it.
#ifndef FEDPLUG_TESTS_REFERENCE_VALUES_H_
#define FEDPLUG_TESTS_REFERENCE_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/base/float16.h"
#include "core/base/float_bits.h"
#include "core/value_code.h"

namespace fedplug::reference {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline float Widen(float x) { return x; }
inline double Widen(double x) { return x; }
inline float Widen(Half x) { return ToFloat(x); }
inline float Widen(BFloat16 x) { return ToFloat(x); }

// Numbers too large become the largest number.
template <typename T>
T Narrow(double x) {
  T narrow;
  if constexpr (std::is_same_v<T, Half>) {
    narrow = ToHalf(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    narrow = ToBFloat16(static_cast<float>(x));
  } else {
    narrow = static_cast<T>(x);
  }
  if (IsFinite(narrow)) return narrow;
  const auto largest =
      static_cast<FloatBitsOf<T>>(ToBits(narrow) - FloatBitsOf<T>{1});
  std::memcpy(&narrow, &largest, sizeof(narrow));
  return narrow;
}

// Levels and scales of a code, before they are packed.
template <typename T>
struct Quantized {
  std::vector<int> levels;  // -top to top
  std::vector<T> scales;
  std::size_t block;
  int top;
};

// No levels yet, and scales of zero.
template <typename T>
Quantized<T> Unfilled(std::size_t count, const ValueCode& code) {
  Quantized<T> q;
  const bool blocks = code.form == ValueForm::kQsgd ||
                      code.form == ValueForm::kNearest ||
                      code.form == ValueForm::kBfp;
  q.block = blocks ? static_cast<std::size_t>(code.block_size)
                   : std::max<std::size_t>(count, 1);
  q.top = blocks ? (1 << (code.bits - 1)) - 1 : 1;
  q.scales.resize(blocks ? (count + q.block - 1) / q.block : 1);
  return q;
}

inline std::uint8_t Log2(std::int64_t power) {
  std::uint8_t log = 0;
  for (; power > 1; power /= 2) ++log;
  return log;
}

inline int BitsOfLevel(const ValueCode& code) {
  switch (code.form) {
    case ValueForm::kQsgd:
    case ValueForm::kNearest:
    case ValueForm::kBfp:
    case ValueForm::kCodebook:
      return code.bits;
    case ValueForm::kSign:
      return 1;
    default:
      return 8;
  }
}

inline std::vector<std::uint8_t> Header(const ValueCode& code) {
  if (code.form == ValueForm::kQsgd || code.form == ValueForm::kNearest ||
      code.form == ValueForm::kBfp) {
    return {static_cast<std::uint8_t>(code.bits), Log2(code.block_size)};
  }
  if (code.form == ValueForm::kCodebook) {
    return {static_cast<std::uint8_t>(code.bits)};
  }
  if (code.form == ValueForm::kBounded) {
    std::vector<std::uint8_t> bytes(sizeof(float));
    std::memcpy(bytes.data(), &code.relative, sizeof(float));
    return bytes;
  }
  return {};
}

// Appends the levels, `bits` bits each.
inline void PackBits(const std::vector<int>& levels, int bits,
                     std::vector<std::uint8_t>* bytes) {
  const std::size_t begin = bytes->size();
  bytes->resize(begin +
                (levels.size() * static_cast<std::size_t>(bits) + 7) / 8);
  std::size_t position = 0;
  for (const int level : levels) {
    for (int bit = 0; bit < bits; ++bit, ++position) {
      std::uint8_t& byte = (*bytes)[begin + position / 8];
      byte = static_cast<std::uint8_t>(
          byte | (((level >> bit) & 1) << (position % 8)));
    }
  }
}

// Levels as they are written, not negative. Those after the last one, too.
inline std::vector<int> UnpackBits(const std::vector<std::uint8_t>& bytes,
                                   std::size_t begin, int bits) {
  std::vector<int> levels;
  const std::size_t end = 8 * bytes.size();
  for (std::size_t position = 8 * begin; position < end;) {
    int level = 0;
    for (int bit = 0; bit < bits && position < end; ++bit, ++position) {
      level |= ((bytes[position / 8] >> (position % 8)) & 1) << bit;
    }
    levels.push_back(level);
  }
  return levels;
}

// The form kBfp. Its decoder takes bytes of the right length and header.
template <typename T>
std::vector<std::uint8_t> EncodeBfp(const std::vector<T>& values,
                                    const ValueCode& code);
template <typename T>
std::optional<std::vector<T>> DecodeBfp(const std::vector<std::uint8_t>& bytes,
                                        std::size_t count,
                                        const ValueCode& code);

// The form kBounded. Its decoder takes bytes of the right length and header.
template <typename T>
std::vector<std::uint8_t> EncodeBounded(const std::vector<T>& values,
                                        const ValueCode& code);
template <typename T>
std::optional<std::vector<T>> DecodeBounded(
    const std::vector<std::uint8_t>& bytes, std::size_t count,
    const ValueCode& code);

}  // namespace fedplug::reference

#endif  // FEDPLUG_TESTS_REFERENCE_VALUES_H_
