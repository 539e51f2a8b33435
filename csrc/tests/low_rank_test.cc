// Products of thin matrices, and residuals of them, against the reference.
#include "core/low_rank.h"

#include "tests/kernel_inputs.h"
#include "tests/reference/matrix.h"

namespace fedplug::testing {
namespace {

template <typename T>
void CompareWithReference(const MatrixShape& shape, Fill fill, Random& random,
                          Parallel& threads) {
  SCOPED_TRACE(std::to_string(shape.rows) + " by " +
               std::to_string(shape.columns) + ", rank " +
               std::to_string(shape.rank) + ", fill " +
               std::to_string(static_cast<int>(fill)));
  const auto p = RandomVector<T>(shape.rows * shape.rank, fill, random);
  const auto q = RandomVector<T>(shape.columns * shape.rank, fill, random);
  const auto expected = reference::LowRankMatrix(p, q, shape);
  Buffer<T> of_rows(p, 1);
  Buffer<T> of_columns(q, 1);
  Buffer<T> matrix(std::vector<T>(expected.size()), 1);
  EXPECT_TRUE(LowRankMatrix(of_rows.data(), of_columns.data(), shape, threads,
                            matrix.data())
                  .ok());
  EXPECT_EQ(reference::WithoutNaNs(matrix.ToVector()),
            reference::WithoutNaNs(expected));
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
    EXPECT_EQ(reference::WithoutNaNs((in_place ? given : other).ToVector()),
              reference::WithoutNaNs(left));
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
