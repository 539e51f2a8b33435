// Words of many draws, at every SIMD level, against one draw after the other.
#include <algorithm>
#include <vector>

#include "core/philox/words.h"
#include "tests/test.h"

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

}  // namespace
}  // namespace fedplug::testing
