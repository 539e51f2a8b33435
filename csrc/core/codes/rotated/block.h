// One block of the rotated code: a matrix of rows that fit into the first-level
// cache. The Hadamard transform is done within each row, and then across rows
// in strips of a few columns that fit there, too.
#ifndef FEDPLUG_CORE_CODES_ROTATED_BLOCK_H_
#define FEDPLUG_CORE_CODES_ROTATED_BLOCK_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/codes/rotated/hadamard_loops.h"

namespace fedplug {

inline constexpr std::int64_t kLargestRotatedBlock = std::int64_t{1} << 20;

template <typename T>
class RotatedBlock {
 public:
  using Loops = hadamard_loops::HadamardLoops<T>;
  using Levels = hadamard_loops::Levels<T>;

  // The memory of a block of `size` elements.
  // SHAPE: memory[Memory(size)]
  static std::int64_t Memory(std::int64_t size) {
    return (size / kRow) * (kRow + kGap) +
           (1 + kMostSums) * std::min(size, kRow);
  }

  // REQUIRES: size is a power of two up to kLargestRotatedBlock
  RotatedBlock(const Loops& loops, std::int64_t size, T* memory)
      : loops_(loops),
        columns_(std::min(size, kRow)),
        rows_(size / columns_),
        width_(rows_ == 1 ? columns_ : kStrip),
        sums_(memory),
        rows_of_block_(memory + kMostSums * columns_) {}

  // Transforms x / peak after changing signs by bits (first + i) of the words.
  // `row(begin, n, to)` writes elements of x. Returns the sum of the squares of
  // x / peak.
  template <typename Row>
  T Rotate(T peak, const std::uint32_t* words, std::int64_t first,
           const Row& row) {
    std::array<T, kRow> squares;
    int level = 0;
    // In this order each row of sums is added as soon as it exists, and few are
    // pending: first rows half of all apart, and so on.
    for (std::int64_t done = 0; done < rows_; ++done) {
      const std::int64_t begin = Reversed(done) * columns_;
      T* const x = RowAt(begin / columns_);
      row(begin, columns_, x);
      loops_.divide(columns_, peak, x, squares.data());
      for (level = 0; ((done >> level) & 1) != 0; ++level) {
        loops_.add(sums_ + level * columns_, columns_, squares.data());
      }
      std::copy_n(squares.data(), columns_, sums_ + level * columns_);
      loops_.flip(words, first + begin, columns_, x);
      loops_.butterflies(x, columns_, 1);
    }
    T* const sum = sums_ + level * columns_;
    loops_.fold(sum, columns_, 1);
    return *sum;
  }

  // The codes of the elements divided by `norm`, and the sum of the products of
  // elements and levels. Rotate has been called. SHAPE: codes[size]
  T Quantize(T norm, int bits, const Levels& levels, std::uint8_t* codes) {
    std::array<std::uint8_t, kMostRows * kStrip> of_strip;
    ForEachStrip([&](std::int64_t column, T* strip) {
      loops_.quantize[bits - 1](strip, rows_ * width_, norm, levels,
                                of_strip.data());
      for (std::int64_t r = 0; r < rows_; ++r) {
        CopyStrip(of_strip.data() + r * width_, codes + r * columns_ + column);
      }
      loops_.fold(strip, rows_ * width_, width_);
      std::copy_n(strip, width_, sums_ + column);
    });
    loops_.fold(sums_, columns_, 1);
    return *sums_;
  }

  // Transforms numbers that `row(begin, n, to)` writes, changes signs, and
  // multiplies by the scale; `take(begin, n, from)` receives the results.
  template <typename Row, typename Take>
  void RotateBack(T scale, const std::uint32_t* words, std::int64_t first,
                  const Row& row, const Take& take) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      T* const x = RowAt(r);
      row(r * columns_, columns_, x);
      loops_.butterflies(x, columns_, 1);
    }
    ForEachStrip([&](std::int64_t column, T* strip) {
      loops_.scale(rows_ * width_, scale, strip);
      for (std::int64_t r = 0; r < rows_; ++r) {
        T* const x = strip + r * width_;
        const std::int64_t begin = r * columns_ + column;
        loops_.flip(words, first + begin, width_, x);
        take(begin, width_, x);
      }
    });
  }

 private:
  static constexpr std::int64_t kRow = 4096;
  static constexpr std::int64_t kStrip = 32;
  // Rows a power of two apart would compete for the same sets of a cache.
  static constexpr std::int64_t kGap = 32;
  static constexpr std::int64_t kMostRows = kLargestRotatedBlock / kRow;
  static constexpr std::int64_t kMostSums = 9;  // 1 + log2 kMostRows

  // Calls strip(column, x) with width_ columns of all rows, transformed.
  template <typename Strip>
  void ForEachStrip(const Strip& strip) {
    if (rows_ == 1) return strip(std::int64_t{0}, RowAt(0));
    alignas(64) std::array<T, kMostRows * kStrip> x;
    for (std::int64_t column = 0; column < columns_; column += width_) {
      for (std::int64_t r = 0; r < rows_; ++r) {
        CopyStrip(RowAt(r) + column, x.data() + r * width_);
      }
      loops_.butterflies(x.data(), rows_ * width_, width_);
      strip(column, x.data());
    }
  }

  // Copies the elements of one row of a strip.
  template <typename U>
  void CopyStrip(const U* from, U* to) const {
    if (rows_ == 1) {
      std::copy_n(from, columns_, to);
    } else {
      std::memcpy(to, from, kStrip * sizeof(U));  // of a size known here
    }
  }

  T* RowAt(std::int64_t r) const { return rows_of_block_ + r * (kRow + kGap); }

  // A row's number with its bits in reverse.
  std::int64_t Reversed(std::int64_t number) const {
    std::int64_t reversed = 0;
    for (std::int64_t bit = 1; bit < rows_; bit *= 2) {
      reversed = 2 * reversed + ((number & bit) != 0 ? 1 : 0);
    }
    return reversed;
  }

  const Loops& loops_;
  const std::int64_t columns_;
  const std::int64_t rows_;
  const std::int64_t width_;  // of a strip
  T* const sums_;             // of rows
  T* const rows_of_block_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_ROTATED_BLOCK_H_
