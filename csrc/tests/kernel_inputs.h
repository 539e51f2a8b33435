// Inputs for the kernel tests: every dtype, every awkward value, sizes at the
// edges, buffers that are aligned to no more than one element, and any number
// of threads.
#ifndef FEDPLUG_TESTS_KERNEL_INPUTS_H_
#define FEDPLUG_TESTS_KERNEL_INPUTS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/floats.h"
#include "core/base/thread_pool.h"
#include "tests/test.h"

namespace fedplug::testing {

// Calls body(T{}) for float and double, the types of a selection.
template <typename Body>
void ForEachWideDtype(const Body& body) {
  const auto traced = [&](auto zero, const char* name) {
    SCOPED_TRACE(std::string("dtype ") + name);
    body(zero);
  };
  traced(float{}, "float");
  traced(double{}, "double");
}

// Calls body(T{}) for the four dtypes.
template <typename Body>
void ForEachDtype(const Body& body) {
  ForEachWideDtype(body);
  const auto traced = [&](auto zero, const char* name) {
    SCOPED_TRACE(std::string("dtype ") + name);
    body(zero);
  };
  traced(Half{}, "Half");
  traced(BFloat16{}, "BFloat16");
}

template <typename T>
T FromBits(FloatBitsOf<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<T, Half>) {
    return ToHalf(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
std::vector<T> FromFloats(const std::vector<float>& values) {
  std::vector<T> converted;
  for (const float value : values) converted.push_back(FromFloat<T>(value));
  return converted;
}

// Floats are compared as bits: -0 is not +0, and a NaN equals itself.
template <typename T>
std::vector<FloatBitsOf<T>> BitsOf(const std::vector<T>& values) {
  std::vector<FloatBitsOf<T>> bits(values.size());
  if (!bits.empty()) {
    std::memcpy(bits.data(), values.data(), bits.size() * sizeof(T));
  }
  return bits;
}

// The same for many values, without copies.
template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

using Random = std::mt19937_64;

inline std::int64_t Below(Random& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() %
                                   static_cast<std::uint64_t>(limit));
}

enum class Fill {
  kNormal,
  kFewLevels,
  kZeros,
  kEqual,
  kDenormal,
  kAnyFinite,
  kAnyBits
};
inline constexpr Fill kAllFills[] = {
    Fill::kNormal,   Fill::kFewLevels, Fill::kZeros,  Fill::kEqual,
    Fill::kDenormal, Fill::kAnyFinite, Fill::kAnyBits};

template <typename T>
T RandomValue(Fill fill, Random& random) {
  using Bits = FloatBitsOf<T>;
  constexpr auto kSign = static_cast<Bits>(Bits{1} << kKeyBits<T>);
  const auto bits = static_cast<Bits>(random());
  switch (fill) {
    case Fill::kNormal:
      return FromFloat<T>(std::normal_distribution<float>()(random));
    case Fill::kFewLevels:
      return FromFloat<T>(static_cast<float>(Below(random, 5)) - 2.0f);
    case Fill::kZeros:
      return FromBits<T>(static_cast<Bits>(bits & kSign));
    case Fill::kEqual:
      return FromFloat<T>(-0.375f);
    case Fill::kDenormal:  // the lowest bits only; some become the smallest
                           // normal numbers when added
      return FromBits<T>(static_cast<Bits>(
          (bits & kSign) | (bits % (FloatTraits<T>::kInfinity / 16))));
    case Fill::kAnyFinite:
      return FromBits<T>(static_cast<Bits>(
          (bits & kSign) | ((bits & ~kSign) % FloatTraits<T>::kInfinity)));
    case Fill::kAnyBits:
      return FromBits<T>(bits);
  }
  return T{};
}

template <typename T>
std::vector<T> RandomVector(std::int64_t n, Fill fill, Random& random) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) value = RandomValue<T>(fill, random);
  return values;
}

// `count` distinct indices below `size`, ascending.
inline std::vector<std::int32_t> RandomIndices(std::int64_t count,
                                               std::int64_t size,
                                               Random& random) {
  std::vector<std::int32_t> indices;
  for (std::int64_t index = 0; index < size && count > 0; ++index) {
    if (Below(random, size - index) < count) {
      indices.push_back(static_cast<std::int32_t>(index));
      --count;
    }
  }
  return indices;
}

// A copy of `values` on the heap that begins `shift` elements after an
// allocation: exact ends for the address sanitizer, and only as aligned as an
// element must be.
template <typename T>
class Buffer {
 public:
  Buffer(const std::vector<T>& values, std::size_t shift)
      : size_(values.size()),
        shift_(shift),
        data_(new T[values.size() + shift]) {
    std::copy(values.begin(), values.end(), data());
  }
  T* data() { return data_.get() + shift_; }
  std::vector<T> ToVector() { return std::vector<T>(data(), data() + size_); }

 private:
  std::size_t size_;
  std::size_t shift_;
  std::unique_ptr<T[]> data_;
};

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_KERNEL_INPUTS_H_
