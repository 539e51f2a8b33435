// The order of additions in a product of matrices: the upper half of the terms
// (the smaller one of an odd number) is added to the lower half until one is
// left. A term without a partner is added to +0. So level 0 are the terms, and
// entry i of level l is entry i of level l - 1 plus its entry i + size(l).
#ifndef FEDPLUG_CORE_MATRIX_HALVING_H_
#define FEDPLUG_CORE_MATRIX_HALVING_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fedplug::matrix {

class Halving {
 public:
  // The most levels that are added up in registers.
  static constexpr int kMostDepth = 3;

  // REQUIRES: terms >= 1
  explicit Halving(std::int64_t terms) : sizes_{terms} {
    while (sizes_.back() > 1) sizes_.push_back((sizes_.back() + 1) / 2);
  }

  // The last level, of size 1.
  int top() const { return static_cast<int>(sizes_.size()) - 1; }

  std::int64_t size(int level) const {
    return sizes_[static_cast<std::size_t>(level)];
  }

  // The first level with at most `entries` entries.
  int LevelBelow(std::int64_t most) const {
    int level = 0;
    while (size(level) > most) ++level;
    return level;
  }

  // Entries first, first + 1 ... of level `depth` are made of 2^depth
  // stretches of terms, which are added up as a balanced tree:
  // ((0 + 1) + (2 + 3)) + ... Stretch s begins at term
  // first + Offset(depth, s), and Present of it are there, the others +0.
  std::int64_t Offset(int depth, int stretch) const {
    std::int64_t offset = 0;
    for (int level = 1; level <= depth; ++level) {
      if (IsRight(level, stretch)) offset += size(level);
    }
    return offset;
  }
  std::int64_t Present(int depth, int stretch, std::int64_t first,
                       std::int64_t count) const {
    for (int level = depth; level >= 1; --level) {
      if (!IsRight(level, stretch)) continue;
      first += size(level);
      count = std::min(count, size(level - 1) - first);
    }
    return std::max<std::int64_t>(count, 0);
  }

 private:
  static bool IsRight(int level, int stretch) {
    return ((stretch >> (level - 1)) & 1) != 0;
  }

  std::vector<std::int64_t> sizes_;
};

}  // namespace fedplug::matrix

#endif  // FEDPLUG_CORE_MATRIX_HALVING_H_
