// The value codes that are a cast to 16 bits.
#ifndef FEDPLUG_CORE_CODES_VALUES_CAST_H_
#define FEDPLUG_CORE_CODES_VALUES_CAST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "core/codes/values/job.h"
#include "core/codes/values/loops.h"

namespace fedplug {

using SingleChunk = std::array<float, value_loops::kChunk>;

// Narrow is Half or BFloat16. False if a value is not finite.
template <typename Narrow, typename T>
bool EncodeCast(const Job<T>& job, const T* values, Parallel& parallel,
                std::uint8_t* data) {
  const auto cast = value_loops::CastLoopsFor<Narrow>(job.simd);
  return ForEachUnit(
      job.count, value_loops::kChunk, parallel,
      [&](std::int64_t first, std::int64_t n) {
        std::uint8_t* const to = data + 2 * first;
        if constexpr (std::is_same_v<T, float>) {
          return IsFiniteKey<float>(cast.narrow(values + first, n, to));
        } else {
          WideChunk<T> staging;
          const auto* const wide = Widened(job, values + first, n, &staging);
          SingleChunk singles;
          std::transform(
              wide, wide + n, singles.begin(),
              [](value_loops::WideOf<T> x) { return static_cast<float>(x); });
          cast.narrow(singles.data(), n, to);
          return IsFiniteKey<value_loops::WideOf<T>>(
              job.level_loops.largest(wide, n));
        }
      });
}

// False if a number in `data` is not finite.
template <typename Narrow, typename T>
bool DecodeCast(const Job<T>& job, const std::uint8_t* data, Parallel& parallel,
                const Decoded<T>& to) {
  const auto cast = value_loops::CastLoopsFor<Narrow>(job.simd);
  return ForEachUnit(
      job.count, value_loops::kChunk, parallel,
      [&](std::int64_t first, std::int64_t n) {
        const std::uint8_t* const from = data + 2 * first;
        if constexpr (std::is_same_v<T, float>) {
          if (to.values != nullptr) {
            return IsFiniteKey<float>(cast.widen(from, n, to.values + first));
          }
        }
        SingleChunk singles;
        if (!IsFiniteKey<float>(cast.widen(from, n, singles.data()))) {
          return false;
        }
        WideChunk<T> wide;
        std::copy_n(singles.begin(), n, wide.begin());
        to.Put(job, wide.data(), first, n);
        return true;
      });
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_VALUES_CAST_H_
