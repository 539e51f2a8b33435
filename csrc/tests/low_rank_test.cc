// Products of thin matrices, residuals of them, and sums with their largest
// magnitude against the reference.
#include "core/low_rank.h"

#include "core/sum_and_largest.h"
#include "tests/kernel_inputs.h"
#include "tests/reference/matrix.h"

namespace fedplug::testing {
namespace {

using value_loops::WideOf;

template <typename T>
void CompareWithReference(const MatrixShape& shape, Fill fill, WideOf<T> scale,
                          Random& random, Parallel& threads) {
  using Wide = WideOf<T>;
  SCOPED_TRACE(std::to_string(shape.rows) + " by " +
               std::to_string(shape.columns) + ", rank " +
               std::to_string(shape.rank) + ", fill " +
               std::to_string(static_cast<int>(fill)));
  const auto p = RandomVector<Wide>(shape.rows * shape.rank, fill, random);
  const auto q = RandomVector<Wide>(shape.columns * shape.rank, fill, random);
  const auto expected = reference::LowRankMatrix<T>(p, q, scale, shape);
  Buffer<Wide> of_rows(p, 1);
  Buffer<Wide> of_columns(q, 1);
  Buffer<T> matrix(std::vector<T>(expected.size()), 1);
  EXPECT_TRUE(LowRankMatrix(of_rows.data(), of_columns.data(), scale, shape,
                            threads, matrix.data())
                  .ok());
  EXPECT_EQ(reference::WithoutNaNs(matrix.ToVector()),
            reference::WithoutNaNs(expected));
  if constexpr (std::is_same_v<T, Wide>) {
    const auto a = RandomVector<T>(shape.rows * shape.columns, fill, random);
    auto left = a;
    for (std::size_t i = 0; i < a.size(); ++i) left[i] -= expected[i];
    for (const bool in_place : {false, true}) {
      Buffer<T> given(a, 1);
      Buffer<T> other(std::vector<T>(a.size()), 1);
      T* const residual = in_place ? given.data() : other.data();
      EXPECT_TRUE(LowRankResidual(given.data(), of_rows.data(),
                                  of_columns.data(), scale, shape, threads,
                                  residual)
                      .ok());
      EXPECT_EQ(reference::WithoutNaNs((in_place ? given : other).ToVector()),
                reference::WithoutNaNs(left));
    }
  }
}

TEST(LowRank, EqualsTheReferenceOnAnyNumberOfThreads) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    ThreadPool three(3);
    for (const MatrixShape& shape :
         {MatrixShape{0, 5, 1}, MatrixShape{5, 0, 2}, MatrixShape{1, 1, 1},
          MatrixShape{7, 3, 2}, MatrixShape{33, 65, 3}, MatrixShape{3, 5000, 4},
          MatrixShape{50000, 3, 5}, MatrixShape{200, 600, 9}}) {
      CompareWithReference<T>(shape, Fill::kNormal, 1.5, random, serial);
      CompareWithReference<T>(shape, Fill::kNormal, -3, random, three);
    }
  });
}

TEST(LowRank, OverflowBecomesTheLargestNumber) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    using Wide = WideOf<T>;
    Random random(2);
    Serial serial;
    for (const Fill fill : kAllFills) {
      for (const Wide scale : {Wide{1}, Wide{0}, Wide(1e30), Wide(1e-30)}) {
        CompareWithReference<T>({40, 30, 2}, fill, scale, random, serial);
      }
    }
    const Wide huge = std::numeric_limits<Wide>::max();
    const std::vector<Wide> p{huge}, q{-2};
    std::vector<T> matrix(1);
    EXPECT_TRUE(LowRankMatrix(p.data(), q.data(), Wide{1}, {1, 1, 1}, serial,
                              matrix.data())
                    .ok());
    EXPECT_EQ(MagnitudeKey(matrix[0]),
              static_cast<FloatBitsOf<T>>(FloatTraits<T>::kInfinity - 1));
  });
}

// Sizes that are written past the caches.
TEST(LowRank, MakesAMatrixThatIsTooLargeForTheCaches) {
  Random random(3);
  ThreadPool three(3);
  CompareWithReference<float>({3001, 2801, 2}, Fill::kNormal, 2, random, three);
}

template <typename T>
void CompareSums(const std::vector<T>& delta, const std::vector<T>& residual,
                 Parallel& threads) {
  std::vector<T> expected;
  FloatBitsOf<T> key = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    expected.push_back(static_cast<T>(delta[i] + residual[i]));
    key = std::max(key, MagnitudeKey(expected.back()));
  }
  for (const bool in_place : {false, true}) {
    Buffer<T> x(delta, 1);
    Buffer<T> y(residual, 1);
    Buffer<T> other(std::vector<T>(delta.size()), 1);
    T largest;
    EXPECT_TRUE(SumAndLargest(x.data(), y.data(),
                              static_cast<std::int64_t>(delta.size()), threads,
                              in_place ? y.data() : other.data(), &largest)
                    .ok());
    EXPECT_EQ(reference::WithoutNaNs((in_place ? y : other).ToVector()),
              reference::WithoutNaNs(expected));
    EXPECT_EQ(reference::WithoutNaNs(std::vector<T>{largest}),
              reference::WithoutNaNs(std::vector<T>{FromBits<T>(key)}));
  }
}

TEST(SumAndLargest, EqualsTheSumsOneByOneOnAnyNumberOfThreads) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(4);
    Serial serial;
    ThreadPool three(3);
    for (const std::int64_t n : {0, 1, 7, 2047, 2049, 200001}) {
      for (const Fill fill : kAllFills) {
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        CompareSums(delta, residual, serial);
        CompareSums(delta, residual, three);
      }
    }
  });
}

TEST(SumAndLargest, AddsTensorsLargerThanTheCaches) {
  Random random(5);
  ThreadPool three(3);
  const auto x = RandomVector<float>(8500001, Fill::kAnyFinite, random);
  CompareSums(x, std::vector<float>(x.rbegin(), x.rend()), three);
}

}  // namespace
}  // namespace fedplug::testing
