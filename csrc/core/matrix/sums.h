// Products with thin matrices: their sums by rows and by columns.
#ifndef FEDPLUG_CORE_MATRIX_SUMS_H_
#define FEDPLUG_CORE_MATRIX_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"
#include "core/matrix/products.h"
#include "core/matrix_times.h"

namespace fedplug::matrix {

// The sums of a row, several vectors at once.
constexpr std::int64_t kFewTerms = 16;
constexpr std::int64_t kRowsAtOnce = 32;

template <typename T>
class RowSums {
 public:
  RowSums(const T* a, const MatrixShape& shape, const Products<T>& products,
          T* product)
      : a_(a),
        shape_(shape),
        products_(products),
        strip_(
            std::max(products.depth(), products.halving().LevelBelow(kPiece))),
        few_(std::max(strip_, products.halving().LevelBelow(kFewTerms))),
        product_(product) {}

  static int Depth(std::int64_t columns) {
    return std::min(Halving::kMostDepth,
                    Halving(columns).LevelBelow(kFewTerms));
  }

  // The state of a thread, for `rank` vectors.
  std::int64_t Memory(std::int64_t vectors) const {
    return products_.stretches() * kPiece + kHalves +
           vectors * ((strip_ - products_.depth() + 1) * kSums +
                      kFewTerms * kRowsAtOnce);
  }

  // Rows [begin, end) of the product, columns first ... of it.
  // REQUIRES: end - begin <= kRowsAtOnce
  void Multiply(std::int64_t begin, std::int64_t end, std::int64_t first,
                T* memory) const {
    const Halving& halving = products_.halving();
    T* const x = memory;
    T* const halves = x + products_.stretches() * kPiece;
    T* const sums = halves + kHalves;
    T* const spare = sums + products_.vectors() * kSums;
    T* const few =
        spare + (strip_ - products_.depth()) * products_.vectors() * kSums;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto leaf = [&](std::int64_t entry, std::int64_t count, T* to,
                            std::int64_t stride) {
        Leaf(a_ + row * shape_.columns, entry, count, x, to, stride);
      };
      products_.AddUp(strip_, 0, halving.size(strip_), 1, leaf, sums, kSums,
                      spare, kSums);
      for (std::int64_t j = 0; j < products_.vectors(); ++j) {
        const T* const left = Halved(sums + j * kSums, halves);
        T* to = few + j * kFewTerms * kRowsAtOnce + (row - begin);
        for (std::int64_t i = 0; i < halving.size(few_); ++i) {
          to[i * kRowsAtOnce] = left[i];
        }
      }
    }
    for (std::int64_t j = 0; j < products_.vectors(); ++j) {
      T* const of_rows = few + j * kFewTerms * kRowsAtOnce;
      products_.Fold(few_, halving.top(), kRowsAtOnce, of_rows);
      for (std::int64_t row = begin; row < end; ++row) {
        product_[row * shape_.rank + first + j] = of_rows[row - begin];
      }
    }
  }

 private:
  // Numbers of a vector. The loops work on whole blocks.
  static constexpr std::int64_t kSums = kPiece + 2 * kLoopBlock;
  static constexpr std::int64_t kHalves = 2 * kSums;

  // The sums of a row at level strip_ become those of level few_, in the one
  // half of `halves`, then in the other.
  const T* Halved(T* sums, T* halves) const {
    for (int level = strip_; level < few_; ++level) {
      sums[products_.halving().size(level)] = 0;  // the last one's partner
      T* const to = halves + (level - strip_) % 2 * kSums;
      products_.loops().add_halves(sums, products_.halving().size(level + 1),
                                   to);
      sums = to;
    }
    return sums;
  }

  void Leaf(const T* row, std::int64_t first, std::int64_t count, T* x, T* sums,
            std::int64_t stride) const {
    const int depth = products_.depth();
    for (int s = 0; s < products_.stretches(); ++s) {
      const T* const from = row + first + products_.halving().Offset(depth, s);
      Products<T>::Padded(from,
                          products_.halving().Present(depth, s, first, count),
                          count, x + s * kPiece);
    }
    for (std::int64_t j = 0; j < products_.vectors(); ++j) {
      products_.loops().products_with_vectors[depth](
          x, kPiece, products_.Numbers(j, first), products_.NumbersStride(),
          count, sums + j * stride);
    }
  }

  const T* a_;
  MatrixShape shape_;
  const Products<T>& products_;
  int strip_;  // the level at which a row is cut into leaves no more
  int few_;    // the level from which rows are added up side by side
  T* product_;
};

// A' B: the terms of a sum are the rows, columns are summed side by side.

// Columns, or elements of neighbouring rows, that are read one after the other.
constexpr std::int64_t kWidest = 2048;

constexpr std::int64_t kTasksOfAThread = 4;

template <typename T>
class ColumnSums {
 public:
  ColumnSums(const T* a, const MatrixShape& shape, const Products<T>& products,
             std::int64_t threads)
      : a_(a),
        columns_(shape.columns),
        products_(products),
        strips_((shape.columns + kWidest - 1) / kWidest),
        group_(strips_ > 1
                   ? 1
                   : std::max<std::int64_t>(1, kWidest / shape.columns)),
        level_(products.halving().top()) {
    const Halving& halving = products.halving();
    while (level_ > products.depth() &&
           (halving.size(level_) < group_ ||
            tasks() < (threads > 1 ? threads * kTasksOfAThread : 1))) {
      --level_;
    }
  }

  static int Depth(std::int64_t rows) {
    return std::min(Halving::kMostDepth, Halving(rows).top());
  }

  std::int64_t tasks() const { return strips_ * groups(); }

  // Of a thread.
  std::int64_t Memory(std::int64_t vectors) const {
    return products_.stretches() * kPiece +
           vectors * (level_ - products_.depth()) * kWidest;
  }
  // Of all of them.
  std::int64_t SumsOf(std::int64_t vectors) const {
    return vectors * products_.halving().size(level_) * columns_;
  }

  // A part of the entries of the level that tasks end with.
  void Run(std::int64_t task, T* memory, T* sums) const {
    const std::int64_t entries = products_.halving().size(level_);
    const std::int64_t entry = task / strips_ * group_;
    const std::int64_t strip = task % strips_;
    const Range mine =
        TileOf(columns_, static_cast<int>(strips_), static_cast<int>(strip));
    const std::int64_t width = mine.end - mine.begin;
    const auto leaf = [&](std::int64_t first, std::int64_t count, T* to,
                          std::int64_t stride) {
      Leaf(first, count, mine, memory, to, stride);
    };
    products_.AddUp(level_, entry, std::min(group_, entries - entry), width,
                    leaf, sums + entry * columns_ + mine.begin,
                    entries * columns_, memory + products_.stretches() * kPiece,
                    kWidest);
  }

  // The remaining entries.
  // SHAPE: product[columns, rank], from the column `first` on
  void Finish(T* sums, std::int64_t rank, std::int64_t first,
              T* product) const {
    for (std::int64_t j = 0; j < products_.vectors(); ++j) {
      T* const sum = sums + j * SumsOf(1);
      products_.Fold(level_, products_.halving().top(), columns_, sum);
      for (std::int64_t c = 0; c < columns_; ++c) {
        product[c * rank + first + j] = sum[c];
      }
    }
  }

 private:
  std::int64_t groups() const {
    return (products_.halving().size(level_) + group_ - 1) / group_;
  }

  void Leaf(std::int64_t first, std::int64_t count, const Range& columns, T* x,
            T* sums, std::int64_t stride) const {
    const std::int64_t width = columns.end - columns.begin;
    // Whole rows, whose elements are neighbours, or a part of one row.
    const std::int64_t rows = std::max<std::int64_t>(1, kPiece / width);
    for (std::int64_t i = 0; i < count; i += rows) {
      const std::int64_t some = std::min(rows, count - i);
      for (std::int64_t c = 0; c < width; c += kPiece) {
        Piece(first + i, some, columns.begin + c, std::min(kPiece, width - c),
              x, sums + i * width + c, stride);
      }
    }
  }

  void Piece(std::int64_t first, std::int64_t rows, std::int64_t column,
             std::int64_t width, T* x, T* sums, std::int64_t stride) const {
    const Halving& halving = products_.halving();
    const int depth = products_.depth();
    for (int s = 0; s < products_.stretches(); ++s) {
      const std::int64_t at =
          (first + halving.Offset(depth, s)) * columns_ + column;
      Products<T>::Padded(a_ + at,
                          halving.Present(depth, s, first, rows) * width,
                          rows * width, x + s * kPiece);
    }
    for (std::int64_t j = 0; j < products_.vectors(); ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        products_.loops().products_with_numbers[depth](
            x + i * width, kPiece, products_.Numbers(j, first + i),
            products_.NumbersStride(), width, sums + j * stride + i * width);
      }
    }
  }

  const T* a_;
  std::int64_t columns_;
  const Products<T>& products_;
  std::int64_t strips_;  // of columns
  std::int64_t group_;   // of neighbouring rows
  int level_;            // which tasks end with
};

}  // namespace fedplug::matrix

#endif  // FEDPLUG_CORE_MATRIX_SUMS_H_
