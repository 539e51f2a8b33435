// A leaf of the tree of additions is eight stretches of terms far apart, whose
// products are added up in registers. Leaves are visited in the order in which
// their sums are wanted (matrix/halving.h), so that few of these wait, one for
// each level, in the caches, and A is read once. The terms of A B are the
// columns of a row: neighbours are summed side by side, and when few sums of a
// row are left, those of many rows. The terms of A' B are rows.
#include "core/matrix_times.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "core/base/float_environment.h"
#include "core/base/scratch.h"
#include "core/base/tiles.h"
#include "core/matrix/halving.h"
#include "core/matrix/matrix_loops.h"

namespace fedplug {
namespace {

using matrix::Halving;
using matrix::InWholeBlocks;
using matrix::kLoopBlock;
using matrix::MatrixLoops;
using value_loops::ConvertLoops;
using value_loops::WideOf;

// Elements of a stretch whose products are made at once: eight of these, and
// the sums, fit a first-level cache.
constexpr std::int64_t kPiece = 512;

// Vectors that share a walk through A.
constexpr std::int64_t kMostVectors = 8;

// Sums of a row that are added up beside those of other rows, so many at once.
constexpr std::int64_t kFewTerms = 16;
constexpr std::int64_t kRowsAtOnce = 32;

// Columns, or elements of neighbouring rows, that are read one after the other.
constexpr std::int64_t kWidest = 2048;

constexpr std::int64_t kTasksOfAThread = 4;
constexpr std::int64_t kSmallestShare = 1 << 15;
constexpr std::int64_t kLine = 64;

// Memory for `count` numbers, beginning with a cache line.
template <typename W>
W* Lines(ScratchBuffer& buffer, std::int64_t count) {
  auto* const bytes = buffer.Reserve<std::uint8_t>(
      count * static_cast<std::int64_t>(sizeof(W)) + kLine);
  const auto past = static_cast<std::int64_t>(
      reinterpret_cast<std::uintptr_t>(bytes) % kLine);
  return reinterpret_cast<W*>(bytes + (kLine - past) % kLine);
}

// A few of the vectors, with what all tasks share.
template <typename T>
class Products {
 public:
  using Wide = WideOf<T>;

  // Leaves are entries of the level `depth` of sums of so many terms.
  Products(std::int64_t terms, int depth, Wide scale, SimdLevel level)
      : halving_(terms),
        depth_(depth),
        scale_(scale),
        loops_(matrix::MatrixLoopsFor<Wide>(level)),
        convert_(value_loops::ConvertLoopsFor<T>(level)) {}

  const Halving& halving() const { return halving_; }
  const MatrixLoops<Wide>& loops() const { return loops_; }
  int depth() const { return depth_; }
  int stretches() const { return 1 << depth_; }
  std::int64_t vectors() const { return vectors_; }

  // Lays columns first ... first + count of B[terms, rank] out as leaves read
  // them: vector after vector, stretch after stretch, with +0 for what is not
  // there.
  // SHAPE: numbers[NumbersOf(count) + kLoopBlock]
  void TakeVectors(const Wide* b, std::int64_t rank, std::int64_t first,
                   std::int64_t count, Parallel& parallel, Wide* numbers) {
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
        const Wide* from =
            b + halving_.Offset(depth_, s) * rank + first + part / stretches();
        Wide* const to = numbers + part * size;
        const std::int64_t present = halving_.Present(depth_, s, 0, size);
        for (std::int64_t i = 0; i < present; ++i) to[i] = from[i * rank];
        std::fill(to + present, to + size, Wide{0});
      }
    });
  }
  std::int64_t NumbersOf(std::int64_t count) const {
    return count * stretches() * halving_.size(depth_);
  }

  // Numbers of a vector for a leaf; those of a stretch are NumbersStride()
  // after those of the one before.
  const Wide* Numbers(std::int64_t vector, std::int64_t entry) const {
    return numbers_ + vector * NumbersOf(1) + entry;
  }
  std::int64_t NumbersStride() const { return halving_.size(depth_); }

  // x = a / scale for `present` elements, then +0 up to `count`. There are
  // `readable` elements of a.
  // SHAPE: x[InWholeBlocks(count)]
  void Scaled(const T* a, std::int64_t present, std::int64_t readable,
              std::int64_t count, Wide* x) const {
    if (scale_ == 0) present = 0;
    const std::int64_t n = std::min(InWholeBlocks(present), readable);
    if (n > 0) {
      if constexpr (std::is_same_v<T, Wide>) {
        loops_.divide(a, n, scale_, x);
      } else {
        convert_.widen(a, n, x);
        loops_.divide(x, n, scale_, x);
      }
    }
    std::fill(x + present, x + count, Wide{0});
  }

  // Entries first ... first + count of a level, each of `width` numbers, which
  // `leaf(first, count, sums, stride)` writes for the level `depth`; of each
  // vector `stride` after the one before.
  // SHAPE: spare[(level - depth) * vectors * spare_stride]
  template <typename Leaf>
  void AddUp(int level, std::int64_t first, std::int64_t count,
             std::int64_t width, const Leaf& leaf, Wide* sums,
             std::int64_t stride, Wide* spare,
             std::int64_t spare_stride) const {
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
      Wide* const sum = sums + j * stride;
      loops_.add(spare + j * spare_stride, pairs * width, sum);
      loops_.add_zeros((count - pairs) * width, sum + pairs * width);
    }
  }

  // All entries of a level, each of `width` numbers, become those of a later
  // one.
  void Fold(int level, int later, std::int64_t width, Wide* sums) const {
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
  Wide scale_;
  MatrixLoops<Wide> loops_;
  ConvertLoops<T> convert_;
  std::int64_t vectors_ = 0;
  const Wide* numbers_ = nullptr;
};

// A B: the terms are the columns.
template <typename T>
class RowSums {
 public:
  using Wide = WideOf<T>;

  RowSums(const T* a, const MatrixShape& shape, const Products<T>& products,
          Wide* product)
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

  // Of a thread, for so many vectors.
  std::int64_t Memory(std::int64_t vectors) const {
    return products_.stretches() * kPiece + kHalves +
           vectors * ((strip_ - products_.depth() + 1) * kSums +
                      kFewTerms * kRowsAtOnce);
  }

  // Rows [begin, end) of the product, columns first ... of it.
  // REQUIRES: end - begin <= kRowsAtOnce
  void Multiply(std::int64_t begin, std::int64_t end, std::int64_t first,
                Wide* memory) const {
    const Halving& halving = products_.halving();
    Wide* const x = memory;
    Wide* const halves = x + products_.stretches() * kPiece;
    Wide* const sums = halves + kHalves;
    Wide* const spare = sums + products_.vectors() * kSums;
    Wide* const few =
        spare + (strip_ - products_.depth()) * products_.vectors() * kSums;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto leaf = [&](std::int64_t entry, std::int64_t count, Wide* to,
                            std::int64_t stride) {
        Leaf(a_ + row * shape_.columns, entry, count, x, to, stride);
      };
      products_.AddUp(strip_, 0, halving.size(strip_), 1, leaf, sums, kSums,
                      spare, kSums);
      for (std::int64_t j = 0; j < products_.vectors(); ++j) {
        const Wide* const left = Halved(sums + j * kSums, halves);
        Wide* to = few + j * kFewTerms * kRowsAtOnce + (row - begin);
        for (std::int64_t i = 0; i < halving.size(few_); ++i) {
          to[i * kRowsAtOnce] = left[i];
        }
      }
    }
    for (std::int64_t j = 0; j < products_.vectors(); ++j) {
      Wide* const of_rows = few + j * kFewTerms * kRowsAtOnce;
      products_.Fold(few_, halving.top(), kRowsAtOnce, of_rows);
      for (std::int64_t row = begin; row < end; ++row) {
        product_[row * shape_.rank + first + j] = of_rows[row - begin];
      }
    }
  }

 private:
  // Of a vector; the loops work on whole blocks.
  static constexpr std::int64_t kSums = kPiece + 2 * kLoopBlock;
  static constexpr std::int64_t kHalves = 2 * kSums;

  // The sums of a row at level strip_ become those of level few_, in the one
  // half of `halves`, then in the other.
  const Wide* Halved(Wide* sums, Wide* halves) const {
    for (int level = strip_; level < few_; ++level) {
      sums[products_.halving().size(level)] = 0;  // the last one's partner
      Wide* const to = halves + (level - strip_) % 2 * kSums;
      products_.loops().add_halves(sums, products_.halving().size(level + 1),
                                   to);
      sums = to;
    }
    return sums;
  }

  void Leaf(const T* row, std::int64_t first, std::int64_t count, Wide* x,
            Wide* sums, std::int64_t stride) const {
    const int depth = products_.depth();
    for (int s = 0; s < products_.stretches(); ++s) {
      const T* const from = row + first + products_.halving().Offset(depth, s);
      products_.Scaled(
          from, products_.halving().Present(depth, s, first, count),
          a_ + shape_.rows * shape_.columns - from, count, x + s * kPiece);
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
  Wide* product_;
};

// A' B: the terms are the rows.
template <typename T>
class ColumnSums {
 public:
  using Wide = WideOf<T>;

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
  void Run(std::int64_t task, Wide* memory, Wide* sums) const {
    const std::int64_t entries = products_.halving().size(level_);
    const std::int64_t entry = task / strips_ * group_;
    const std::int64_t strip = task % strips_;
    const Range mine =
        TileOf(columns_, static_cast<int>(strips_), static_cast<int>(strip));
    const std::int64_t width = mine.end - mine.begin;
    const auto leaf = [&](std::int64_t first, std::int64_t count, Wide* to,
                          std::int64_t stride) {
      Leaf(first, count, mine, memory, to, stride);
    };
    products_.AddUp(level_, entry, std::min(group_, entries - entry), width,
                    leaf, sums + entry * columns_ + mine.begin,
                    entries * columns_, memory + products_.stretches() * kPiece,
                    kWidest);
  }

  // What is left to be added up.
  // SHAPE: product[columns, rank], from the column `first` on
  void Finish(Wide* sums, std::int64_t rank, std::int64_t first,
              Wide* product) const {
    for (std::int64_t j = 0; j < products_.vectors(); ++j) {
      Wide* const sum = sums + j * SumsOf(1);
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

  void Leaf(std::int64_t first, std::int64_t count, const Range& columns,
            Wide* x, Wide* sums, std::int64_t stride) const {
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
             std::int64_t width, Wide* x, Wide* sums,
             std::int64_t stride) const {
    const Halving& halving = products_.halving();
    const int depth = products_.depth();
    for (int s = 0; s < products_.stretches(); ++s) {
      const std::int64_t at =
          (first + halving.Offset(depth, s)) * columns_ + column;
      products_.Scaled(a_ + at, halving.Present(depth, s, first, rows) * width,
                       halving.size(0) * columns_ - at, rows * width,
                       x + s * kPiece);
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

Status CheckShape(const MatrixShape& shape) {
  if (shape.rows >= 0 && shape.columns >= 0 && shape.rank >= 0) return {};
  return {StatusCode::kInvalidArgument,
          "a matrix of " + std::to_string(shape.rows) + " by " +
              std::to_string(shape.columns) + " times " +
              std::to_string(shape.rank) + " vectors: a number is negative"};
}

}  // namespace

template <typename T>
Status MatrixTimes(const T* a, WideOf<T> scale, const WideOf<T>* b,
                   const MatrixShape& shape, Parallel& parallel,
                   WideOf<T>* product) {
  using Wide = WideOf<T>;
  if (Status status = CheckShape(shape); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  if (shape.columns == 0) {
    std::fill_n(product, shape.rows * shape.rank, Wide{0});
    return {};
  }
  const KeepAwake awake(parallel);
  Products<T> products(shape.columns, RowSums<T>::Depth(shape.columns), scale,
                       level);
  const RowSums<T> sums(a, shape, products, product);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(
      shape.rows, 1,
      TileCount(shape.rows * shape.columns, kSmallestShare, parallel)));
  const std::int64_t rows =
      std::clamp<std::int64_t>(shape.rows / threads, 1, kRowsAtOnce);
  const std::int64_t blocks = (shape.rows + rows - 1) / rows;
  const std::int64_t vectors = std::min(shape.rank, kMostVectors);
  const ScratchLease scratch;
  const std::int64_t memory = sums.Memory(vectors);
  auto* const numbers =
      Lines<Wide>(scratch->values, products.NumbersOf(vectors) + kLoopBlock);
  auto* const of_threads = Lines<Wide>(scratch->keys, threads * memory);
  for (std::int64_t first = 0; first < shape.rank; first += kMostVectors) {
    products.TakeVectors(b, shape.rank, first,
                         std::min(kMostVectors, shape.rank - first), parallel,
                         numbers);
    parallel.Run(threads, [&](int t) {
      const DefaultFloatEnvironment environment;
      Wide* const mine = of_threads + t * memory;
      std::fill_n(mine, memory, Wide{0});  // also for rows that are not there
      const Range range = TileOf(blocks, threads, t);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        sums.Multiply(i * rows, std::min(shape.rows, (i + 1) * rows), first,
                      mine);
      }
    });
  }
  return {};
}

template <typename T>
Status TransposedTimes(const T* a, WideOf<T> scale, const WideOf<T>* b,
                       const MatrixShape& shape, Parallel& parallel,
                       WideOf<T>* product) {
  using Wide = WideOf<T>;
  if (Status status = CheckShape(shape); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  if (shape.rows == 0 || shape.columns == 0) {
    std::fill_n(product, shape.columns * shape.rank, Wide{0});
    return {};
  }
  const KeepAwake awake(parallel);
  Products<T> products(shape.rows, ColumnSums<T>::Depth(shape.rows), scale,
                       level);
  const int threads =
      TileCount(shape.rows * shape.columns, kSmallestShare, parallel);
  const ColumnSums<T> columns(a, shape, products, threads);
  const int tiles =
      static_cast<int>(std::min<std::int64_t>(columns.tasks(), threads));
  const std::int64_t vectors = std::min(shape.rank, kMostVectors);
  const ScratchLease scratch;
  const std::int64_t memory = columns.Memory(vectors);
  auto* const numbers =
      Lines<Wide>(scratch->values, products.NumbersOf(vectors) + kLoopBlock);
  auto* const of_threads = Lines<Wide>(scratch->keys, tiles * memory);
  auto* const sums = Lines<Wide>(scratch->ranked, columns.SumsOf(vectors));
  for (std::int64_t first = 0; first < shape.rank; first += kMostVectors) {
    products.TakeVectors(b, shape.rank, first,
                         std::min(kMostVectors, shape.rank - first), parallel,
                         numbers);
    parallel.Run(tiles, [&](int t) {
      const DefaultFloatEnvironment environment;
      const Range range = TileOf(columns.tasks(), tiles, t);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        columns.Run(i, of_threads + t * memory, sums);
      }
    });
    const DefaultFloatEnvironment environment;
    columns.Finish(sums, shape.rank, first, product);
  }
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                            \
  template Status MatrixTimes(const T*, WideOf<T>, const WideOf<T>*,      \
                              const MatrixShape&, Parallel&, WideOf<T>*); \
  template Status TransposedTimes(const T*, WideOf<T>, const WideOf<T>*,  \
                                  const MatrixShape&, Parallel&, WideOf<T>*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
