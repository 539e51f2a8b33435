// Draws words in batches, and converts them while they are in the cache.
#include "core/random_numbers.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/parallel.h"
#include "core/base/philox.h"
#include "core/philox/words.h"

namespace fedplug {
namespace {

constexpr std::int64_t kDraws = 4 * philox::kGroup;
constexpr std::int64_t kWords = kDraws * Philox::kWords;
constexpr std::int64_t kSmallestShare = 1 << 14;  // numbers or indices

template <typename T>
constexpr std::int64_t kBatch =
    kWords * 4 / static_cast<std::int64_t>(sizeof(T));

// Calls body(first, length, words) for batches of `per_batch` of `count`
// numbers, on several threads.
template <typename Body>
void ForEachBatch(const Philox& random, SimdLevel level, std::int64_t count,
                  std::int64_t per_batch, Parallel& parallel,
                  const Body& body) {
  philox::WordsLoop* const draw = philox::WordsLoopFor(level);
  const std::int64_t batches = (count + per_batch - 1) / per_batch;
  const int tiles = static_cast<int>(std::min<std::int64_t>(
      batches, TileCount(count, kSmallestShare, parallel)));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(batches, tiles, t);
    std::array<std::uint32_t, kWords> words;
    for (std::int64_t batch = mine.begin; batch < mine.end; ++batch) {
      draw(random, batch * kDraws, kDraws, words.data());
      const std::int64_t first = batch * per_batch;
      body(first, std::min(per_batch, count - first), words.data());
    }
  });
}

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
  ForEachBatch(
      {first, second}, level, count, kBatch<T>, parallel,
      [&](std::int64_t done, std::int64_t n, const std::uint32_t* words) {
        NumbersOf(words, n, numbers + done);
      });
}

#define FEDPLUG_INSTANTIATE(T)                                             \
  template void DrawNumbers<T>(std::uint64_t, std::uint64_t, std::int64_t, \
                               Parallel&, T*)
FEDPLUG_INSTANTIATE(std::uint32_t);
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

Status CheckDraw(std::int64_t count, std::int64_t size) {
  if (0 <= count && count <= size && size <= INT32_MAX) return {};
  return {StatusCode::kInvalidArgument,
          "count = " + std::to_string(count) + " and size = " +
              std::to_string(size) + " are not 0 <= count <= size < 2^31"};
}

Status DrawIndices(std::uint64_t seed, std::int64_t count, std::int64_t size,
                   Parallel& parallel, std::int32_t* indices) {
  if (Status status = CheckDraw(count, size); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  if (count == 0) return {};
  // Run i of the elements begins with element i * size / count.
  const std::int64_t shortest = size / count;
  const std::int64_t longer = size % count;
  const auto draw = [&](std::int64_t first, std::int64_t n,
                        const std::uint32_t* words) {
    std::int64_t begin = first * size / count;
    std::int64_t rest = first * size % count;
    for (std::int64_t i = 0; i < n; ++i) {
      rest += longer;
      const std::int64_t elements = shortest + (rest >= count ? 1 : 0);
      rest -= rest >= count ? count : 0;
      const auto offset = static_cast<std::int64_t>(
          Philox::ToUniform(words[2 * i], words[2 * i + 1]) *
          static_cast<double>(elements));
      indices[first + i] =
          static_cast<std::int32_t>(begin + std::min(offset, elements - 1));
      begin += elements;
    }
  };
  ForEachBatch({seed, 0}, level, count, kBatch<double>, parallel, draw);
  return {};
}

}  // namespace fedplug
