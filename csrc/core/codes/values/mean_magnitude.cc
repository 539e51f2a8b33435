// The halving is done to all the terms of a strip of the last level at once:
// level l of the sum is [sizes[l]], and its element i is element i of the level
// below plus element i + sizes[l]. A strip needs one buffer per level, and
// strips are independent.
#include <algorithm>
#include <vector>

#include "core/base/parallel.h"
#include "core/codes/values/forms.h"
#include "core/codes/values/level.h"
#include "core/codes/values/loops.h"

namespace fedplug {
namespace {

// Elements of a strip, which are read from neighbouring addresses: fewer would
// wait for memory. The buffers of all levels fit a second-level cache.
constexpr std::int64_t kStrip = 4096;

// The level at which strips end. One thread adds the rest.
constexpr std::int64_t kLastLevel = 1 << 14;

constexpr std::int64_t kSmallestTile = 1 << 16;

std::int64_t HalfOf(std::int64_t size) { return (size + 1) / 2; }

template <typename T>
class Halving {
 public:
  Halving(const T* values, std::int64_t n, SimdLevel level)
      : loops_(value_loops::MeanLoopsFor<T>(level)),
        values_(values),
        share_(1.0 / static_cast<double>(n)),
        sizes_{n} {
    while (sizes_.back() > kLastLevel) sizes_.push_back(HalfOf(sizes_.back()));
  }

  std::int64_t terms() const { return sizes_.back(); }

  // Elements first .. first + width of the last level.
  // SHAPE: sum[width], spare[spare()]
  void Strip(std::int64_t first, std::int64_t width, double* spare,
             double* sum) const {
    Add(sizes_.size() - 1, first, width, spare, sum);
  }

  std::int64_t spare() const {
    return static_cast<std::int64_t>(sizes_.size()) * kStrip;
  }

 private:
  void Add(std::size_t level, std::int64_t first, std::int64_t width,
           double* spare, double* sum) const {
    if (level == 0) return loops_.shares(values_ + first, width, share_, sum);
    if (level == 2 && first + sizes_[2] + sizes_[1] + width <= sizes_[0]) {
      // Without writing terms in between.
      return loops_.four_shares(values_ + first, sizes_[1], sizes_[2], width,
                                share_, sum);
    }
    Add(level - 1, first, width, spare, sum);
    const std::int64_t second = first + sizes_[level];
    const std::int64_t pairs = std::min(width, sizes_[level - 1] - second);
    if (pairs <= 0) return;
    if (level == 1) {
      return loops_.add_shares(values_ + second, pairs, share_, sum);
    }
    Add(level - 1, second, pairs, spare + kStrip, spare);
    loops_.add(spare, pairs, sum);
  }

  value_loops::MeanLoops<T> loops_;
  const T* values_;
  double share_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace

template <typename T>
T MeanMagnitude(const T* values, std::int64_t n, SimdLevel level,
                Parallel& parallel) {
  if (n == 0) return T{};
  const DefaultFloatEnvironment environment;
  const Halving<T> halving(values, n, level);
  std::vector<double> terms(static_cast<std::size_t>(halving.terms()));
  const int tiles = static_cast<int>(std::min<std::int64_t>(
      halving.terms(), TileCount(n, kSmallestTile, parallel)));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment task_environment;
    std::vector<double> spare(static_cast<std::size_t>(halving.spare()));
    const Range mine = TileOf(halving.terms(), tiles, t);
    for (std::int64_t first = mine.begin; first < mine.end; first += kStrip) {
      halving.Strip(first, std::min(kStrip, mine.end - first), spare.data(),
                    terms.data() + first);
    }
  });
  for (std::int64_t left = halving.terms(); left > 1;) {
    const std::int64_t half = HalfOf(left);
    for (std::int64_t i = 0; i < left - half; ++i) {
      const auto low = static_cast<std::size_t>(i);
      terms[low] += terms[low + static_cast<std::size_t>(half)];
    }
    left = half;
  }
  return value_loops::Rounded<T>(terms[0]);
}

#define FEDPLUG_INSTANTIATE(T) \
  template T MeanMagnitude(const T*, std::int64_t, SimdLevel, Parallel&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
