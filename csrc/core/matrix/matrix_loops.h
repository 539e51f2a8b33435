// The inner loops of products of a large matrix with a few vectors. Plain
// loops, which the compiler vectorises for every SIMD level, with equal
// results.
#ifndef FEDPLUG_CORE_MATRIX_MATRIX_LOOPS_H_
#define FEDPLUG_CORE_MATRIX_MATRIX_LOOPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/simd/level.h"

namespace fedplug::matrix {

// The order of additions in a product of matrices: the upper half of the terms
// (the smaller one of an odd number) is added to the lower half until one is
// left. A term without a partner is added to +0. So level 0 are the terms, and
// entry i of level l is entry i of level l - 1 plus its entry i + size(l).
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

// Marked loops work on whole blocks of this size: beyond n they read and write
// arbitrary values.
inline constexpr std::int64_t kLoopBlock = 16;

// The most columns whose products are added up at once.
inline constexpr int kRanksAtOnce = 4;

// T is float or double.
template <typename T>
struct MatrixLoops {
  // sums = the products of x and y in the stretches 0, 1 ... 2^depth - 1, each
  // `x_stride` (`y_stride`) after the one before, added up as a balanced tree.
  // Indexed by depth. `y` has a number for each stretch or each product, and in
  // the latter case the loop works on whole blocks.
  using Products = void(const T* x, std::int64_t x_stride, const T* y,
                        std::int64_t y_stride, std::int64_t n, T* sums);
  Products* products_with_numbers[Halving::kMostDepth + 1];
  Products* products_with_vectors[Halving::kMostDepth + 1];

  // sums = terms + the terms after `half`, in whole blocks.
  void (*add_halves)(const T* terms, std::int64_t half, T* sums);

  // sums += terms
  void (*add)(const T* terms, std::int64_t n, T* sums);
  // sums += 0: -0 becomes +0.
  void (*add_zeros)(std::int64_t n, T* sums);

  // total = p[0] * q + p[1] * (q after q_stride) ..., one after the other,
  // and the same added to the total that is there. Indexed by their number.
  using Outer = void(const T* p, const T* q, std::int64_t q_stride,
                     std::int64_t n, T* total);
  Outer* outer[kRanksAtOnce + 1];
  Outer* add_outer[kRanksAtOnce + 1];

  // x is limited to `largest` in magnitude. NaN stays.
  void (*limit)(T largest, std::int64_t n, T* x);
};

// REQUIRES: IsSupported(level)
template <typename T>
MatrixLoops<T> MatrixLoopsFor(SimdLevel level);

}  // namespace fedplug::matrix

#endif  // FEDPLUG_CORE_MATRIX_MATRIX_LOOPS_H_
