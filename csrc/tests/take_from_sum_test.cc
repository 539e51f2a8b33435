// Entries of sums at given places against sums made one by one, for every dtype
// and on any number of threads.
#include "core/take_from_sum.h"

#include <algorithm>
#include <limits>

#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

template <typename T>
struct Case {
  std::vector<T> delta, residual;
  std::vector<std::int32_t> indices;
};

template <typename T>
Case<T> RandomCase(std::int64_t n, std::int64_t stride) {
  Random random(static_cast<unsigned>(n + stride));
  std::normal_distribution<float> normal;
  std::vector<float> delta, residual;
  for (std::int64_t i = 0; i < n; ++i) {
    delta.push_back(normal(random));
    residual.push_back(normal(random));
  }
  Case<T> made{FromFloats<T>(delta), FromFloats<T>(residual), {}};
  for (std::int64_t i = stride / 2; i < n; i += stride) {
    made.indices.push_back(static_cast<std::int32_t>(i));
  }
  return made;
}

template <typename T>
void ExpectTheSumsOneByOne(const Case<T>& made, Parallel& threads) {
  const auto n = static_cast<std::int64_t>(made.delta.size());
  const auto count = static_cast<std::int64_t>(made.indices.size());
  std::vector<T> rest, taken, alone;
  for (std::size_t i = 0; i < made.delta.size(); ++i) {
    rest.push_back(made.delta[i] + made.residual[i]);
  }
  for (const std::int32_t index : made.indices) {
    const auto i = static_cast<std::size_t>(index);
    taken.push_back(rest[i]);
    alone.push_back(made.delta[i]);
    rest[i] = T{};
  }
  std::vector<T> values(made.indices.size());
  EXPECT_TRUE(Gather(made.delta.data(), n, made.indices.data(), count, threads,
                     values.data())
                  .ok());
  EXPECT_TRUE(SameBits(values, alone));
  for (const bool in_place : {false, true}) {
    std::vector<T> out =
        in_place ? made.residual : std::vector<T>(made.residual.size());
    std::int64_t non_finite;
    EXPECT_TRUE(TakeFromSum(made.delta.data(),
                            in_place ? out.data() : made.residual.data(),
                            out.data(), n, made.indices.data(), count, threads,
                            values.data(), &non_finite)
                    .ok());
    EXPECT_TRUE(SameBits(values, taken));
    EXPECT_TRUE(SameBits(out, rest));
  }
}

TEST(TakeFromSum, TakesTheSumsOnAnyNumberOfThreads) {
  Serial serial;
  ThreadPool three(3);
  ForEachWideDtype([&](auto zero) {
    using T = decltype(zero);
    for (const std::int64_t n : {0, 1, 2047, 2049, 1200001}) {
      for (const std::int64_t stride : {1, 7, 3000}) {
        SCOPED_TRACE("n " + std::to_string(n) + ", stride " +
                     std::to_string(stride));
        const auto made = RandomCase<T>(n, stride);
        ExpectTheSumsOneByOne(made, serial);
        ExpectTheSumsOneByOne(made, three);
      }
    }
  });
}

// Sizes that are written past the caches.
TEST(TakeFromSum, TakesFromAResidualThatIsTooLargeForTheCaches) {
  ThreadPool three(3);
  ExpectTheSumsOneByOne(RandomCase<float>(9000001, 101), three);
}

}  // namespace
}  // namespace fedplug::testing
