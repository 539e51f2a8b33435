// The threshold selection against a comparison of each sum, on any number of
// threads.
#include "core/threshold_residual.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "core/base/thread_pool.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

struct Result {
  Status status;
  std::vector<float> values;
  std::vector<std::int32_t> indices;
  std::vector<float> residual;
};

Result Select(const std::vector<float>& delta,
              const std::vector<float>& residual, float threshold,
              bool in_place, Parallel& parallel) {
  const auto n = static_cast<std::int64_t>(delta.size());
  Result result;
  result.residual = in_place ? residual : std::vector<float>(residual.size());
  float* const out = result.residual.data();
  ThresholdSelection<float> selection;
  std::int64_t non_finite;
  result.status = selection.Run(delta.data(), in_place ? out : residual.data(),
                                out, n, threshold, parallel, &non_finite);
  if (!result.status.ok()) return result;
  const auto count = static_cast<std::size_t>(selection.count());
  result.values.resize(count);
  result.indices.resize(count);
  selection.Write(parallel, result.values.data(), result.indices.data());
  return result;
}

std::vector<float> Normal(std::int64_t n, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

TEST(ThresholdSelection, TakesEntriesAtTheThresholdOnAnyNumberOfThreads) {
  Random random(1);
  for (const std::int64_t n : {0, 1, 2047, 2049, 1200001}) {
    const auto delta = Normal(n, random);
    const auto residual = Normal(n, random);
    for (const float threshold : {0.0f, 0.3f, 4.0f, 100.0f}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", threshold " +
                   std::to_string(threshold));
      std::vector<float> values, rest;
      std::vector<std::int32_t> indices;
      for (std::size_t i = 0; i < delta.size(); ++i) {
        const float a = delta[i] + residual[i];
        const bool chosen = std::abs(a) >= threshold && a != 0;
        rest.push_back(chosen ? 0.0f : a);
        if (!chosen) continue;
        values.push_back(a);
        indices.push_back(static_cast<std::int32_t>(i));
      }
      Serial serial;
      ThreadPool three(3);
      for (Parallel* const threads :
           {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&three)}) {
        for (const bool in_place : {false, true}) {
          const Result result =
              Select(delta, residual, threshold, in_place, *threads);
          EXPECT_EQ(result.status.message(), "");
          EXPECT_TRUE(result.values == values);
          EXPECT_TRUE(result.indices == indices);
          EXPECT_TRUE(result.residual == rest);
        }
      }
    }
  }
}

TEST(ThresholdSelection, WritesALargeResidualAsASmallOne) {
  constexpr std::int64_t n = (std::int64_t{32} << 20) / 4 + 5;
  constexpr std::size_t kLine = 64;
  std::vector<float> delta(n), residual(n), room(n + kLine);
  for (std::size_t i = 0; i < delta.size(); ++i) {
    delta[i] = static_cast<float>(i % 1009);
    residual[i] = static_cast<float>(i % 7);
  }
  // Only what begins with a cache line is written past the caches.
  void* out = room.data();
  std::size_t space = room.size() * sizeof(float);
  std::align(kLine, n * sizeof(float), out, space);
  ThreadPool three(3);
  ThresholdSelection<float> selection;
  std::int64_t non_finite;
  const auto* const rest = static_cast<const float*>(out);
  EXPECT_TRUE(selection
                  .Run(delta.data(), residual.data(), static_cast<float*>(out),
                       n, 1000.0f, three, &non_finite)
                  .ok());
  const Result expected = Select(delta, residual, 1000.0f, true, three);
  EXPECT_EQ(selection.count(),
            static_cast<std::int64_t>(expected.values.size()));
  EXPECT_TRUE(std::equal(rest, rest + n, expected.residual.begin()));
}

// Large enough for a log of what is written over.
TEST(ThresholdSelection, ALargeResidualIsAsItWasWhenTheLastSumIsBad) {
  constexpr std::size_t n = (std::size_t{32} << 20) / 4 + 5;
  std::vector<float> delta(n), residual(n);
  for (std::size_t i = 0; i < n; ++i) {
    delta[i] = static_cast<float>(i % 1009) / 7;
    residual[i] = static_cast<float>(i % 13) / 3 - 1e-7f;
  }
  ThreadPool three(3);
  const Result good = Select(delta, residual, 140.0f, true, three);
  const Result elsewhere = Select(delta, residual, 140.0f, false, three);
  EXPECT_TRUE(good.status.ok());
  EXPECT_TRUE(good.values == elsewhere.values);
  EXPECT_TRUE(good.indices == elsewhere.indices);
  EXPECT_TRUE(good.residual == elsewhere.residual);

  const auto give_up = [](std::int64_t) { throw std::bad_alloc(); };
  auto left = residual;
  ThresholdSelection<float> selection;
  std::int64_t non_finite;
  bool gave_up = false;
  try {
    static_cast<void>(selection.Run(delta.data(), left.data(), left.data(), n,
                                    140.0f, three, &non_finite, give_up));
  } catch (const std::bad_alloc&) {
    gave_up = true;
  }
  EXPECT_TRUE(gave_up);
  EXPECT_TRUE(left == residual);

  delta[n - 2] = std::numeric_limits<float>::infinity();
  const Result bad = Select(delta, residual, 140.0f, true, three);
  EXPECT_TRUE(bad.status.code() == StatusCode::kNonFinite);
  EXPECT_TRUE(bad.residual == residual);
}

}  // namespace
}  // namespace fedplug::testing
