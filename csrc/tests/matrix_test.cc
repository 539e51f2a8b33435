// Products of a matrix with a few vectors, of thin matrices, and residuals of them, against sums made one
// by one, for float32 and float64 and on any number of threads.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/floats.h"
#include "core/low_rank.h"
#include "core/matrix_times.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

// The bits, with one pattern for all NaNs.
template <typename T>
std::vector<FloatBitsOf<T>> WithoutNaNs(const std::vector<T>& values) {
  std::vector<FloatBitsOf<T>> bits;
  for (const T value : values) {
    const bool nan = MagnitudeKey(value) > FloatTraits<T>::kInfinity;
    bits.push_back(nan ? static_cast<FloatBitsOf<T>>(-1) : ToBits(value));
  }
  return bits;
}

template <typename W>
W HalvedSum(std::vector<W> terms) {
  while (terms.size() > 1) {
    if (terms.size() % 2 != 0) terms.push_back(0);
    const std::size_t half = terms.size() / 2;
    for (std::size_t i = 0; i < half; ++i) terms[i] += terms[half + i];
    terms.resize(half);
  }
  return terms.empty() ? W{0} : terms[0];
}

// A B, or A' B.
template <typename T>
std::vector<T> SlowTimes(const std::vector<T>& a, const std::vector<T>& b,
                         const MatrixShape& shape, bool transposed) {
  const auto element = [&](std::int64_t i, std::int64_t c) {
    return a[static_cast<std::size_t>(i * shape.columns + c)];
  };
  const std::int64_t sums = transposed ? shape.columns : shape.rows;
  const std::int64_t terms = transposed ? shape.rows : shape.columns;
  std::vector<T> product;
  for (std::int64_t i = 0; i < sums; ++i) {
    for (std::int64_t j = 0; j < shape.rank; ++j) {
      std::vector<T> products;
      for (std::int64_t k = 0; k < terms; ++k) {
        products.push_back((transposed ? element(k, i) : element(i, k)) *
                           b[static_cast<std::size_t>(k * shape.rank + j)]);
      }
      product.push_back(HalvedSum(products));
    }
  }
  return product;
}

// P Q'
template <typename T>
std::vector<T> SlowLowRankMatrix(const std::vector<T>& p,
                                 const std::vector<T>& q,
                                 const MatrixShape& shape) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  std::vector<T> matrix;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      T sum = 0;
      for (std::int64_t j = 0; j < shape.rank; ++j) {
        const T product = p[static_cast<std::size_t>(i * shape.rank + j)] *
                          q[static_cast<std::size_t>(c * shape.rank + j)];
        sum = j == 0 ? product : sum + product;
      }
      if (sum > kLargest) sum = kLargest;
      if (sum < -kLargest) sum = -kLargest;
      matrix.push_back(sum);
    }
  }
  return matrix;
}

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
  EXPECT_EQ(WithoutNaNs(rows.ToVector()),
            WithoutNaNs(SlowTimes(made.a, made.of_columns, shape, false)));
  Buffer<T> columns = empty(shape.columns * shape.rank);
  EXPECT_TRUE(
      TransposedTimes(a.data(), of_rows.data(), shape, threads, columns.data())
          .ok());
  EXPECT_EQ(WithoutNaNs(columns.ToVector()),
            WithoutNaNs(SlowTimes(made.a, made.of_rows, shape, true)));
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

// Products of thin matrices, and residuals of them, against the reference.

template <typename T>
void CompareWithReference(const MatrixShape& shape, Fill fill, Random& random,
                          Parallel& threads) {
  SCOPED_TRACE(std::to_string(shape.rows) + " by " +
               std::to_string(shape.columns) + ", rank " +
               std::to_string(shape.rank) + ", fill " +
               std::to_string(static_cast<int>(fill)));
  const auto p = RandomVector<T>(shape.rows * shape.rank, fill, random);
  const auto q = RandomVector<T>(shape.columns * shape.rank, fill, random);
  const auto expected = SlowLowRankMatrix(p, q, shape);
  Buffer<T> of_rows(p, 1);
  Buffer<T> of_columns(q, 1);
  Buffer<T> matrix(std::vector<T>(expected.size()), 1);
  EXPECT_TRUE(LowRankMatrix(of_rows.data(), of_columns.data(), shape, threads,
                            matrix.data())
                  .ok());
  EXPECT_EQ(WithoutNaNs(matrix.ToVector()), WithoutNaNs(expected));
  const auto a = RandomVector<T>(shape.rows * shape.columns, fill, random);
  auto left = a;
  for (std::size_t i = 0; i < a.size(); ++i) left[i] -= expected[i];
  for (const bool in_place : {false, true}) {
    Buffer<T> given(a, 1);
    Buffer<T> other(std::vector<T>(a.size()), 1);
    T* const residual = in_place ? given.data() : other.data();
    EXPECT_TRUE(LowRankResidual(given.data(), of_rows.data(), of_columns.data(),
                                shape, threads, residual)
                    .ok());
    EXPECT_EQ(WithoutNaNs((in_place ? given : other).ToVector()),
              WithoutNaNs(left));
  }
}

TEST(LowRank, EqualsTheReferenceOnAnyNumberOfThreads) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    ThreadPool three(3);
    for (const MatrixShape& shape :
         {MatrixShape{0, 5, 1}, MatrixShape{5, 0, 2}, MatrixShape{1, 1, 1},
          MatrixShape{7, 3, 2}, MatrixShape{33, 65, 3}, MatrixShape{3, 5000, 4},
          MatrixShape{50000, 3, 5}, MatrixShape{200, 600, 9}}) {
      CompareWithReference<T>(shape, Fill::kNormal, random, serial);
      CompareWithReference<T>(shape, Fill::kNormal, random, three);
    }
  });
}

TEST(LowRank, OverflowBecomesTheLargestNumber) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(2);
    Serial serial;
    for (const Fill fill : kAllFills) {
      CompareWithReference<T>({40, 30, 2}, fill, random, serial);
    }
    const T huge = std::numeric_limits<T>::max();
    const std::vector<T> p{huge}, q{-2};
    std::vector<T> matrix(1);
    EXPECT_TRUE(
        LowRankMatrix(p.data(), q.data(), {1, 1, 1}, serial, matrix.data())
            .ok());
    EXPECT_TRUE(matrix[0] == -huge);
  });
}

// Sizes that are written past the caches.
TEST(LowRank, MakesAMatrixThatIsTooLargeForTheCaches) {
  Random random(3);
  ThreadPool three(3);
  CompareWithReference<float>({3001, 2801, 2}, Fill::kNormal, random, three);
}

}  // namespace
}  // namespace fedplug::testing
