// Batches are drawn straight into their place, only the last one beside it.
#include "core/random_numbers.h"

#include <algorithm>
#include <array>

#include "core/base/float_environment.h"
#include "core/base/philox.h"
#include "core/base/tiles.h"
#include "core/simd/loops.h"

namespace fedplug {
namespace {

constexpr std::int64_t kDraws = 4 * Philox::kLanes;
constexpr std::int64_t kSmallestShare = 1 << 14;  // numbers

template <typename T>
constexpr std::int64_t kPerDraw = 16 / static_cast<std::int64_t>(sizeof(T));

template <typename T>
constexpr std::int64_t kBatch = kDraws * kPerDraw<T>;

FEDPLUG_ALWAYS_INLINE void BatchLoop(const Philox& philox,
                                     std::int64_t first_draw,
                                     std::uint32_t* words) {
  philox.AllWords(first_draw, kDraws, words);
}

FEDPLUG_ALWAYS_INLINE void BatchLoop(const Philox& philox,
                                     std::int64_t first_draw, float* numbers) {
  philox.Uniform(first_draw, kDraws, numbers);
}

FEDPLUG_ALWAYS_INLINE void BatchLoop(const Philox& philox,
                                     std::int64_t first_draw, double* numbers) {
  philox.UniformDoubles(first_draw, kDraws, numbers);
}

template <typename T>
using Batch = void (*)(const Philox&, std::int64_t, T*);

template <typename T>
Batch<T> BatchFor(SimdLevel level) {
  constexpr Batch<T> kLoop = BatchLoop;
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) return Avx2<kLoop>;
#endif
  static_cast<void>(level);
  return Baseline<kLoop>;
}

}  // namespace

template <typename T>
void DrawNumbers(std::uint64_t first, std::uint64_t second, std::int64_t count,
                 Parallel& parallel, T* numbers) {
  SimdLevel level;
  // A refused FEDPLUG_SIMD leaves the baseline, and the numbers are the same.
  static_cast<void>(FindSimdLevel(&level));
  const Philox philox(first, second);
  const Batch<T> draw = BatchFor<T>(level);
  const std::int64_t batches = (count + kBatch<T> - 1) / kBatch<T>;
  const int tiles = static_cast<int>(std::min<std::int64_t>(
      batches, TileCount(count, kSmallestShare, parallel)));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(batches, tiles, t);
    for (std::int64_t batch = mine.begin; batch < mine.end; ++batch) {
      T* const to = numbers + batch * kBatch<T>;
      const std::int64_t length =
          std::min(kBatch<T>, count - batch * kBatch<T>);
      if (length == kBatch<T>) {
        draw(philox, batch * kDraws, to);
        continue;
      }
      std::array<T, kBatch<T>> last;
      draw(philox, batch * kDraws, last.data());
      std::copy_n(last.begin(), length, to);
    }
  });
}

#define FEDPLUG_INSTANTIATE(T)                                             \
  template void DrawNumbers<T>(std::uint64_t, std::uint64_t, std::int64_t, \
                               Parallel&, T*)
FEDPLUG_INSTANTIATE(std::uint32_t);
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
