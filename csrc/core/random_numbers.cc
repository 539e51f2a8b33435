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

// Draws numbers in batches, and advances the runs without a division.

namespace {

constexpr std::int64_t kNumbers = kDraws * Philox::kDoubles;

// The begin of run i of `count`. Next() advances.
class Runs {
 public:
  Runs(std::int64_t i, std::int64_t count, std::int64_t size)
      : count_(count),
        shortest_(size / count),
        longer_(size % count),
        begin_(i * size / count),
        rest_(i * size % count) {}

  std::int64_t begin() const { return begin_; }

  void Next() {
    begin_ += shortest_;
    rest_ += longer_;
    if (rest_ < count_) return;
    rest_ -= count_;
    ++begin_;
  }

 private:
  const std::int64_t count_;
  const std::int64_t shortest_;
  const std::int64_t longer_;
  std::int64_t begin_;
  std::int64_t rest_;
};

}  // namespace

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
  const Philox random(seed, 0);
  philox::WordsLoop* const draw = philox::WordsLoopFor(level);
  const std::int64_t batches = (count + kNumbers - 1) / kNumbers;
  const int tiles = static_cast<int>(std::min<std::int64_t>(
      batches, TileCount(count, kSmallestShare, parallel)));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(batches, tiles, t);
    Runs runs(mine.begin * kNumbers, count, size);
    std::array<std::uint32_t, 2 * kNumbers> words;
    for (std::int64_t batch = mine.begin; batch < mine.end; ++batch) {
      draw(random, batch * kDraws, kDraws, words.data());
      const std::int64_t first = batch * kNumbers;
      const std::int64_t length = std::min(kNumbers, count - first);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t begin = runs.begin();
        runs.Next();
        const std::int64_t elements = runs.begin() - begin;
        const auto word = static_cast<std::size_t>(2 * i);
        const auto offset = static_cast<std::int64_t>(
            Philox::ToUniform(words[word], words[word + 1]) *
            static_cast<double>(elements));
        indices[first + i] =
            static_cast<std::int32_t>(begin + std::min(offset, elements - 1));
      }
    }
  });
  return {};
}

}  // namespace fedplug
