// Cuts the work into tasks, which matrix/ computes.
#include "core/matrix_times.h"

#include <algorithm>
#include <string>

#include "core/base/parallel.h"
#include "core/base/scratch.h"
#include "core/matrix/products.h"
#include "core/matrix/sums.h"

namespace fedplug {
namespace {

using matrix::ColumnSums;
using matrix::kLoopBlock;
using matrix::kRowsAtOnce;
using matrix::kSmallestShare;
using matrix::Products;
using matrix::RowSums;

// Number of vectors that share a walk through A.
constexpr std::int64_t kMostVectors = 8;

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

Status CheckShape(const MatrixShape& shape) {
  if (shape.rows >= 0 && shape.columns >= 0 && shape.rank >= 0) return {};
  return {StatusCode::kInvalidArgument,
          "a matrix of " + std::to_string(shape.rows) + " by " +
              std::to_string(shape.columns) + " times " +
              std::to_string(shape.rank) + " vectors: a number is negative"};
}

// Calls `multiply(first)` for every few of the vectors, the columns of
// B[terms, rank], the first of which is column `first`.
template <typename T, typename Multiply>
void ForVectors(const T* b, std::int64_t rank, Products<T>& products,
                Parallel& parallel, ScratchBuffer& buffer,
                const Multiply& multiply) {
  auto* const numbers = Lines<T>(
      buffer, products.NumbersOf(std::min(rank, kMostVectors)) + kLoopBlock);
  for (std::int64_t first = 0; first < rank; first += kMostVectors) {
    products.TakeVectors(b, rank, first, std::min(kMostVectors, rank - first),
                         parallel, numbers);
    multiply(first);
  }
}

}  // namespace

template <typename T>
Status MatrixTimes(const T* a, const T* b, const MatrixShape& shape,
                   Parallel& parallel, T* product) {
  if (Status status = CheckShape(shape); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  if (shape.columns == 0) {
    std::fill_n(product, shape.rows * shape.rank, T{0});
    return {};
  }
  const KeepAwake awake(parallel);
  Products<T> products(shape.columns, RowSums<T>::Depth(shape.columns), level);
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
  auto* const of_threads = Lines<T>(scratch->keys, threads * memory);
  const auto multiply = [&](std::int64_t first) {
    parallel.Run(threads, [&](int t) {
      const DefaultFloatEnvironment environment;
      T* const mine = of_threads + t * memory;
      std::fill_n(mine, memory, T{0});  // also for rows that are not there
      const Range range = TileOf(blocks, threads, t);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        sums.Multiply(i * rows, std::min(shape.rows, (i + 1) * rows), first,
                      mine);
      }
    });
  };
  ForVectors<T>(b, shape.rank, products, parallel, scratch->values, multiply);
  return {};
}

template <typename T>
Status TransposedTimes(const T* a, const T* b, const MatrixShape& shape,
                       Parallel& parallel, T* product) {
  if (Status status = CheckShape(shape); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  if (shape.rows == 0 || shape.columns == 0) {
    std::fill_n(product, shape.columns * shape.rank, T{0});
    return {};
  }
  const KeepAwake awake(parallel);
  Products<T> products(shape.rows, ColumnSums<T>::Depth(shape.rows), level);
  const int threads =
      TileCount(shape.rows * shape.columns, kSmallestShare, parallel);
  const ColumnSums<T> columns(a, shape, products, threads);
  const int tiles =
      static_cast<int>(std::min<std::int64_t>(columns.tasks(), threads));
  const std::int64_t vectors = std::min(shape.rank, kMostVectors);
  const ScratchLease scratch;
  const std::int64_t memory = columns.Memory(vectors);
  auto* const of_threads = Lines<T>(scratch->keys, tiles * memory);
  auto* const sums = Lines<T>(scratch->ranked, columns.SumsOf(vectors));
  const auto multiply = [&](std::int64_t first) {
    parallel.Run(tiles, [&](int t) {
      const DefaultFloatEnvironment environment;
      const Range range = TileOf(columns.tasks(), tiles, t);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        columns.Run(i, of_threads + t * memory, sums);
      }
    });
    const DefaultFloatEnvironment environment;
    columns.Finish(sums, shape.rank, first, product);
  };
  ForVectors<T>(b, shape.rank, products, parallel, scratch->values, multiply);
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                            \
  template Status MatrixTimes(const T*, const T*, const MatrixShape&,     \
                              Parallel&, T*);                             \
  template Status TransposedTimes(const T*, const T*, const MatrixShape&, \
                                  Parallel&, T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
