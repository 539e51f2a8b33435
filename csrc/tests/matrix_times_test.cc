// Products of a matrix with a few vectors against sums made one by one, for
// float32 and float64 and on any number of threads.
#include "core/matrix_times.h"

#include "tests/kernel_inputs.h"
#include "tests/reference/matrix.h"

namespace fedplug::testing {
namespace {

template <typename T>
struct Case {
  MatrixShape shape;
  std::vector<T> a;
  std::vector<T> of_columns;  // B of A B
  std::vector<T> of_rows;     // B of A' B
};

template <typename T>
Case<T> RandomCase(const MatrixShape& shape, Fill fill, Random& random) {
  return {shape, RandomVector<T>(shape.rows * shape.columns, fill, random),
          RandomVector<T>(shape.columns * shape.rank, fill, random),
          RandomVector<T>(shape.rows * shape.rank, fill, random)};
}

template <typename T>
void ExpectTheSumsOneByOne(const Case<T>& made, Parallel& threads) {
  const MatrixShape& shape = made.shape;
  SCOPED_TRACE(std::to_string(shape.rows) + " by " +
               std::to_string(shape.columns) + ", " +
               std::to_string(shape.rank) + " vectors");
  Buffer<T> a(made.a, 1);
  Buffer<T> of_columns(made.of_columns, 1);
  Buffer<T> of_rows(made.of_rows, 3);
  const auto empty = [](std::int64_t size) {
    return Buffer<T>(std::vector<T>(static_cast<std::size_t>(size), 7), 1);
  };
  Buffer<T> rows = empty(shape.rows * shape.rank);
  EXPECT_TRUE(
      MatrixTimes(a.data(), of_columns.data(), shape, threads, rows.data())
          .ok());
  EXPECT_EQ(reference::WithoutNaNs(rows.ToVector()),
            reference::WithoutNaNs(
                reference::Times(made.a, made.of_columns, shape, false)));
  Buffer<T> columns = empty(shape.columns * shape.rank);
  EXPECT_TRUE(
      TransposedTimes(a.data(), of_rows.data(), shape, threads, columns.data())
          .ok());
  EXPECT_EQ(reference::WithoutNaNs(columns.ToVector()),
            reference::WithoutNaNs(
                reference::Times(made.a, made.of_rows, shape, true)));
}

TEST(MatrixTimes, AddsHalvesToHalvesWhateverTheShape) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    for (const std::int64_t rows : {0, 1, 2, 3, 5, 8, 15, 17, 70}) {
      for (const std::int64_t columns : {0, 1, 2, 7, 9, 16, 31, 65, 130}) {
        const MatrixShape shape{rows, columns, Below(random, 11)};
        ExpectTheSumsOneByOne(RandomCase<T>(shape, Fill::kNormal, random),
                              serial);
      }
    }
  });
}

// Leaves of more than one piece, groups of rows, strips of columns.
constexpr MatrixShape kLarge[] = {{2500, 70, 3}, {70, 2500, 2}, {300, 700, 9},
                                  {9000, 9, 2},  {9, 9000, 2},  {40000, 2, 1},
                                  {2, 40000, 1}, {1, 70000, 1}, {70000, 1, 1}};

TEST(MatrixTimes, DoesNotDependOnTheNumberOfThreads) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(2);
    Serial serial;
    ThreadPool three(3);
    ThreadPool seven(7);
    for (const MatrixShape& shape : kLarge) {
      const auto made = RandomCase<T>(shape, Fill::kNormal, random);
      ExpectTheSumsOneByOne(made, serial);
      ExpectTheSumsOneByOne(made, three);
      ExpectTheSumsOneByOne(made, seven);
    }
  });
}

TEST(MatrixTimes, KeepsSignedZerosDenormalsAndNonFiniteValues) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(3);
    Serial serial;
    for (const Fill fill : kAllFills) {
      SCOPED_TRACE("fill " + std::to_string(static_cast<int>(fill)));
      for (const MatrixShape& shape :
           {MatrixShape{37, 53, 2}, MatrixShape{1, 9, 1}, MatrixShape{6, 1, 1},
            MatrixShape{21, 1100, 1}}) {
        ExpectTheSumsOneByOne(RandomCase<T>(shape, fill, random), serial);
      }
    }
  });
}

TEST(MatrixTimes, RefusesNegativeNumbers) {
  Serial serial;
  for (const MatrixShape& shape :
       {MatrixShape{-1, 2, 3}, MatrixShape{1, -2, 3}, MatrixShape{1, 2, -3}}) {
    const float* const none = nullptr;
    float* const product = nullptr;
    EXPECT_TRUE(MatrixTimes(none, none, shape, serial, product).code() ==
                StatusCode::kInvalidArgument);
    EXPECT_TRUE(TransposedTimes(none, none, shape, serial, product).code() ==
                StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fedplug::testing
