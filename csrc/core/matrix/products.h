// Sums of the products of A's elements with those of a few vectors: the part
// that A B and A' B share.
//
// A leaf of the tree of additions is eight stretches of terms far apart, whose
// products are added up in registers. Leaves are visited in the order in which
// their sums are wanted (`Halving`), so that few of these wait, one for each
// level, in the caches, and A is read once.
#ifndef FEDPLUG_CORE_MATRIX_PRODUCTS_H_
#define FEDPLUG_CORE_MATRIX_PRODUCTS_H_

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"
#include "core/matrix/matrix_loops.h"

namespace fedplug::matrix {

// Elements of a stretch whose products are made at once: eight of these, and
// the sums, fit a first-level cache.
constexpr std::int64_t kPiece = 512;

// Elements that are worth a thread.
constexpr std::int64_t kSmallestShare = 1 << 15;

// A few of the vectors, with the data that all tasks share.
template <typename T>
class Products {
 public:
  // Leaves are the entries of level `depth` of sums of kLeaf terms.
  Products(std::int64_t terms, int depth, SimdLevel level)
      : halving_(terms), depth_(depth), loops_(MatrixLoopsFor<T>(level)) {}

  const Halving& halving() const { return halving_; }
  const MatrixLoops<T>& loops() const { return loops_; }
  int depth() const { return depth_; }
  int stretches() const { return 1 << depth_; }
  std::int64_t vectors() const { return vectors_; }

  // Lays columns first ... first + count of B[terms, rank] out as leaves read
  // them: vector after vector, stretch after stretch, with +0 for missing
  // terms.
  // SHAPE: numbers[NumbersOf(count) + kLoopBlock]
  void TakeVectors(const T* b, std::int64_t rank, std::int64_t first,
                   std::int64_t count, Parallel& parallel, T* numbers) {
    vectors_ = count;
    numbers_ = numbers;
    const std::int64_t parts = count * stretches();
    const std::int64_t size = halving_.size(depth_);
    const int tiles = static_cast<int>(std::min<std::int64_t>(
        parts, TileCount(parts * size, kSmallestShare, parallel)));
    parallel.Run(tiles, [&](int t) {
      const Range mine = TileOf(parts, tiles, t);
      for (std::int64_t part = mine.begin; part < mine.end; ++part) {
        const auto s = static_cast<int>(part % stretches());
        const T* from =
            b + halving_.Offset(depth_, s) * rank + first + part / stretches();
        T* const to = numbers + part * size;
        const std::int64_t present = halving_.Present(depth_, s, 0, size);
        for (std::int64_t i = 0; i < present; ++i) to[i] = from[i * rank];
        std::fill(to + present, to + size, T{0});
      }
    });
  }
  std::int64_t NumbersOf(std::int64_t count) const {
    return count * stretches() * halving_.size(depth_);
  }

  // Numbers of a vector for a leaf. Those of a stretch are NumbersStride()
  // after those of the one before.
  const T* Numbers(std::int64_t vector, std::int64_t entry) const {
    return numbers_ + vector * NumbersOf(1) + entry;
  }
  std::int64_t NumbersStride() const { return halving_.size(depth_); }

  // x = a for `present` elements, then +0 up to `count`.
  // SHAPE: x[count]
  static void Padded(const T* a, std::int64_t present, std::int64_t count,
                     T* x) {
    std::copy_n(a, present, x);
    std::fill(x + present, x + count, T{0});
  }

  // Entries first ... first + count of a level, each of `width` numbers, which
  // `leaf(first, count, sums, stride)` writes for the level `depth`; of each
  // vector `stride` after the one before.
  // SHAPE: spare[(level - depth) * vectors * spare_stride]
  template <typename Leaf>
  void AddUp(int level, std::int64_t first, std::int64_t count,
             std::int64_t width, const Leaf& leaf, T* sums, std::int64_t stride,
             T* spare, std::int64_t spare_stride) const {
    if (level == depth_) return leaf(first, count, sums, stride);
    AddUp(level - 1, first, count, width, leaf, sums, stride, spare,
          spare_stride);
    const std::int64_t second = first + halving_.size(level);
    const std::int64_t pairs =
        std::clamp<std::int64_t>(halving_.size(level - 1) - second, 0, count);
    if (pairs > 0) {
      AddUp(level - 1, second, pairs, width, leaf, spare, spare_stride,
            spare + vectors_ * spare_stride, spare_stride);
    }
    for (std::int64_t j = 0; j < vectors_; ++j) {
      T* const sum = sums + j * stride;
      loops_.add(spare + j * spare_stride, pairs * width, sum);
      loops_.add_zeros((count - pairs) * width, sum + pairs * width);
    }
  }

  // All entries of a level, each of `width` numbers, become those of a later
  // one.
  void Fold(int level, int later, std::int64_t width, T* sums) const {
    for (; level < later; ++level) {
      const std::int64_t whole = halving_.size(level) * width;
      const std::int64_t half = halving_.size(level + 1) * width;
      loops_.add(sums + half, whole - half, sums);
      loops_.add_zeros(2 * half - whole, sums + whole - half);
    }
  }

 private:
  Halving halving_;
  int depth_;
  MatrixLoops<T> loops_;
  std::int64_t vectors_ = 0;
  const T* numbers_ = nullptr;
};

}  // namespace fedplug::matrix

#endif  // FEDPLUG_CORE_MATRIX_PRODUCTS_H_
