// Draws words in batches, and converts them while they are in the cache.
#include "core/random_numbers.h"

#include <algorithm>
#include <array>

#include "core/base/float_environment.h"
#include "core/base/philox.h"
#include "core/base/tiles.h"
#include "core/philox/words.h"

namespace fedplug {
namespace {

constexpr std::int64_t kDraws = 4 * philox::kGroup;
constexpr std::int64_t kWords = kDraws * Philox::kWords;
constexpr std::int64_t kSmallestShare = 1 << 14;  // numbers

template <typename T>
constexpr std::int64_t kBatch =
    kWords * 4 / static_cast<std::int64_t>(sizeof(T));

// Converts the first words of a batch to numbers.
void NumbersOf(const std::uint32_t* words, std::int64_t n,
               std::uint32_t* numbers) {
  std::copy_n(words, n, numbers);
}

void NumbersOf(const std::uint32_t* words, std::int64_t n, float* numbers) {
  for (std::int64_t i = 0; i < n; ++i) {
    numbers[i] = Philox::ToUniform(words[i]);
  }
}

void NumbersOf(const std::uint32_t* words, std::int64_t n, double* numbers) {
  for (std::int64_t i = 0; i < n; ++i) {
    numbers[i] = Philox::ToUniform(words[2 * i], words[2 * i + 1]);
  }
}

}  // namespace

template <typename T>
void DrawNumbers(std::uint64_t first, std::uint64_t second, std::int64_t count,
                 Parallel& parallel, T* numbers) {
  SimdLevel level;
  // A refused FEDPLUG_SIMD leaves the baseline, and the numbers are the same.
  static_cast<void>(FindSimdLevel(&level));
  const Philox random(first, second);
  philox::WordsLoop* const draw = philox::WordsLoopFor(level);
  const std::int64_t batches = (count + kBatch<T> - 1) / kBatch<T>;
  const int tiles = static_cast<int>(std::min<std::int64_t>(
      batches, TileCount(count, kSmallestShare, parallel)));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(batches, tiles, t);
    std::array<std::uint32_t, kWords> words;
    for (std::int64_t batch = mine.begin; batch < mine.end; ++batch) {
      draw(random, batch * kDraws, kDraws, words.data());
      const std::int64_t done = batch * kBatch<T>;
      NumbersOf(words.data(), std::min(kBatch<T>, count - done),
                numbers + done);
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
