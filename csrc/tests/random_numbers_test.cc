// Words of many draws, at every SIMD level, against one draw after the other, and numbers on any number of
// threads.
#include "core/random_numbers.h"

#include <algorithm>
#include <vector>

#include "core/philox/words.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

constexpr SimdLevel kLevels[] = {SimdLevel::kBaseline, SimdLevel::kAvx2,
                                 SimdLevel::kAvx512, SimdLevel::kNeon};

TEST(PhiloxWords, AreThoseOfOneDrawAfterTheOther) {
  const Philox random(0x123456789abcdef0u, ~std::uint64_t{6});
  constexpr std::int64_t kDraws = 3 * philox::kGroup;
  // Also at an overflow of the lower half of the counter.
  for (const std::int64_t first :
       {std::int64_t{0}, std::int64_t{250}, (std::int64_t{1} << 32) - 40}) {
    std::vector<std::uint32_t> expected;
    for (std::int64_t draw = first; draw < first + kDraws; ++draw) {
      const auto words = Philox::Draw({static_cast<std::uint32_t>(draw),
                                       static_cast<std::uint32_t>(draw >> 32),
                                       random.stream()[0], random.stream()[1]},
                                      random.key());
      expected.insert(expected.end(), words.begin(), words.end());
    }
    for (const SimdLevel level : kLevels) {
      if (!IsSupported(level)) continue;
      std::vector<std::uint32_t> drawn(expected.size());
      philox::WordsLoopFor(level)(random, first, kDraws, drawn.data());
      EXPECT_EQ(drawn, expected);
    }
  }
}

TEST(DrawNumbers, DoNotDependOnTheNumberOfThreads) {
  Serial serial;
  ThreadPool three(3);
  constexpr std::int64_t kCount = 70001;
  std::vector<double> numbers(kCount), shared_numbers(kCount);
  std::vector<std::int32_t> indices(kCount), shared_indices(kCount);
  DrawNumbers(7, 8, kCount, serial, numbers.data());
  DrawNumbers(7, 8, kCount, three, shared_numbers.data());
  EXPECT_EQ(BitsOf(numbers), BitsOf(shared_numbers));
  EXPECT_TRUE(DrawIndices(7, kCount, INT32_MAX, serial, indices.data()).ok());
  EXPECT_TRUE(
      DrawIndices(7, kCount, INT32_MAX, three, shared_indices.data()).ok());
  EXPECT_EQ(indices, shared_indices);
}

}  // namespace
}  // namespace fedplug::testing
