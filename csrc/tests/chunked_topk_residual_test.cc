// Top-k within chunks against a sort of each chunk, on any number of threads.
#include "core/chunked_topk_residual.h"

#include <limits>

#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

namespace fedplug::testing {
namespace {

template <typename T>
struct Result {
  Status status;
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  std::int64_t non_finite = -1;
};

struct Way {
  std::int64_t k;
  std::int64_t chunk;
  float decay;
};

// `residual` may be null.
template <typename T>
Result<T> Select(const std::vector<T>& delta, const std::vector<T>* residual,
                 const Way& way, bool in_place, Parallel& parallel) {
  const auto n = static_cast<std::int64_t>(delta.size());
  const auto entries =
      static_cast<std::size_t>(ChunkedEntries(n, way.k, way.chunk));
  Buffer<T> update(delta, 1);
  Buffer<T> before(residual == nullptr ? std::vector<T>() : *residual, 3);
  Buffer<T> after(in_place ? *residual : delta, 2);
  Buffer<T> values(std::vector<T>(entries), 1);
  Buffer<std::int32_t> indices(std::vector<std::int32_t>(entries), 3);
  Result<T> result;
  result.status = ChunkedTopKResidual<T>(
      update.data(),
      in_place              ? after.data()
      : residual == nullptr ? nullptr
                            : before.data(),
      after.data(), n, way.k, way.chunk, FromFloat<T>(way.decay), parallel,
      values.data(), indices.data(), &result.non_finite);
  result.values = values.ToVector();
  result.indices = indices.ToVector();
  result.residual = after.ToVector();
  return result;
}

template <typename T>
void ExpectTheReference(const std::vector<T>& delta,
                        const std::vector<T>& residual, const Way& way,
                        const Result<T>& result) {
  const auto expected = reference::ChunkedTopKResidual(
      delta, residual, way.k, way.chunk, FromFloat<T>(way.decay));
  ASSERT_EQ(result.status.message(), "");
  EXPECT_EQ(result.non_finite, 0);
  EXPECT_EQ(result.indices, expected.indices);
  EXPECT_EQ(BitsOf(result.values), BitsOf(expected.values));
  EXPECT_EQ(BitsOf(result.residual), BitsOf(expected.residual));
}

constexpr Fill kFills[] = {Fill::kNormal, Fill::kFewLevels, Fill::kZeros,
                           Fill::kEqual, Fill::kDenormal};

constexpr Way kWays[] = {{0, 16, 1},     {1, 1, 0.5f},      {3, 10, 0.95f},
                         {64, 4096, 1},  {64, 4096, 0.95f}, {700, 1000, 0.5f},
                         {5, 100000, 1}, {1000, 64, 0.95f}, {2, 7, 0}};

TEST(ChunkedTopKResidual, EqualsTheReference) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    for (const std::int64_t n : {0, 1, 9, 4096, 4097, 9001}) {
      for (const Fill fill : kFills) {
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        for (const Way& way : kWays) {
          SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                       std::to_string(static_cast<int>(fill)) + ", k " +
                       std::to_string(way.k) + ", chunk " +
                       std::to_string(way.chunk));
          for (const bool in_place : {false, true}) {
            ExpectTheReference(delta, residual, way,
                               Select(delta, &residual, way, in_place, serial));
          }
          ExpectTheReference(delta, std::vector<T>(delta.size()), way,
                             Select<T>(delta, nullptr, way, false, serial));
        }
      }
    }
  });
}

// If neighbouring chunks differ by orders of magnitude, every guess is far off,
// in both directions.
TEST(ChunkedTopKResidual, NeedsNoSimilarChunks) {
  Random random(2);
  Serial serial;
  auto delta = RandomVector<float>(20 * 500, Fill::kNormal, random);
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const float scales[] = {1, 1e-20f, 1e20f, 0, 1e-30f};
    delta[i] *= scales[i / 500 % 5];
  }
  const std::vector<float> residual(delta.size());
  for (const Way& way : {Way{10, 500, 1}, Way{400, 500, 0.5f}}) {
    ExpectTheReference(delta, residual, way,
                       Select(delta, &residual, way, false, serial));
  }
}

TEST(ChunkedTopKResidual, DoesNotDependOnTheNumberOfThreads) {
  Random random(3);
  ThreadPool three(3);
  for (const std::int64_t n : {1200001, 3000000}) {
    const auto delta = RandomVector<float>(n, Fill::kNormal, random);
    const auto residual = RandomVector<float>(n, Fill::kNormal, random);
    const Way way{64, 4096, 0.95f};
    for (const bool in_place : {false, true}) {
      ExpectTheReference(delta, residual, way,
                         Select(delta, &residual, way, in_place, three));
    }
  }
}

TEST(ChunkedTopKResidual, AcceptsADecayedResidualThatFits) {
  Serial serial;
  const std::vector<float> large(3, std::numeric_limits<float>::max());
  const auto whole = Select(large, &large, {1, 3, 1}, true, serial);
  EXPECT_EQ(whole.non_finite, 3);
  const std::vector<float> half(3, std::numeric_limits<float>::max() / 2);
  EXPECT_TRUE(Select(half, &large, {1, 3, 0.5f}, true, serial).status.ok());
}

}  // namespace
}  // namespace fedplug::testing
