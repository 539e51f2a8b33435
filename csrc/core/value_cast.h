// The value codes that are a cast to 16 bits. Knows no scales.
#ifndef FEDPLUG_CORE_VALUE_CAST_H_
#define FEDPLUG_CORE_VALUE_CAST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "core/value_job.h"

namespace fedplug {

// Narrow is Half or BFloat16. False where a value is not finite.
template <typename Narrow, typename T>
bool EncodeCast(const Job<T>& job, const T* values, Parallel& parallel,
                std::uint8_t* data) {
  const auto convert = value_loops::ConvertLoopsFor<Narrow>(job.simd);
  return ForEachUnit(
      job.count, value_loops::kChunk, parallel,
      [&](std::int64_t first, std::int64_t n) {
        WideChunk<T> wide;
        job.convert.widen(values + first, n, wide.data());
        if (!IsFiniteKey<value_loops::WideOf<T>>(
                job.level_loops.largest(wide.data(), n))) {
          return false;
        }
        std::array<float, value_loops::kChunk> singles;
        std::transform(
            wide.begin(), wide.begin() + n, singles.begin(),
            [](value_loops::WideOf<T> x) { return static_cast<float>(x); });
        std::array<Narrow, value_loops::kChunk> narrow;
        convert.narrow(singles.data(), n, narrow.data());
        const auto bytes = static_cast<std::int64_t>(sizeof(Narrow));
        std::memcpy(data + first * bytes, narrow.data(),
                    static_cast<std::size_t>(n * bytes));
        return true;
      });
}

// False where a number in `data` is not finite.
template <typename Narrow, typename T>
bool DecodeCast(const Job<T>& job, const std::uint8_t* data, Parallel& parallel,
                T* values) {
  const auto convert = value_loops::ConvertLoopsFor<Narrow>(job.simd);
  const auto level_loops = value_loops::LevelLoopsFor<float>(job.simd);
  return ForEachUnit(
      job.count, value_loops::kChunk, parallel,
      [&](std::int64_t first, std::int64_t n) {
        const auto bytes = static_cast<std::int64_t>(sizeof(Narrow));
        std::array<Narrow, value_loops::kChunk> narrow;
        std::memcpy(narrow.data(), data + first * bytes,
                    static_cast<std::size_t>(n * bytes));
        std::array<float, value_loops::kChunk> singles;
        convert.widen(narrow.data(), n, singles.data());
        if (!IsFiniteKey<float>(level_loops.largest(singles.data(), n))) {
          return false;
        }
        WideChunk<T> wide;
        std::copy_n(singles.begin(), n, wide.begin());
        job.convert.narrow(wide.data(), n, values + first);
        return true;
      });
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_VALUE_CAST_H_
