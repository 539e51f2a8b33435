// Draws numbers in batches, and advances the runs without a division.
#include "core/random_indices.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/float_environment.h"
#include "core/base/philox.h"
#include "core/base/tiles.h"
#include "core/philox/words.h"

namespace fedplug {
namespace {

constexpr std::int64_t kSmallestShare = 1 << 14;
constexpr std::int64_t kDraws = 4 * philox::kGroup;
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
