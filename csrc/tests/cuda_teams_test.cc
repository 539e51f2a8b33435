// Tests how a list with a k for each tensor divides the blocks of a grid.
#include "cuda/topk/lists.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

TEST(CudaTeams, HaveEveryBlockAndEveryTensorWithoutWaitingInACircle) {
  Random random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto tensors = static_cast<int>(2 + Below(random, 40));
    std::vector<std::uint32_t> first_tile = {0};
    for (int i = 0; i < tensors; ++i) {
      const std::int64_t most = Below(random, 3) == 0 ? 500 : 3;
      first_tile.push_back(first_tile.back() + 1 +
                           static_cast<std::uint32_t>(Below(random, most)));
    }
    const cuda::topk::List<float> list = {nullptr, first_tile.data(), nullptr,
                                          tensors, first_tile.back(), 0};
    const auto blocks = static_cast<unsigned>(
        1 + Below(random, std::min<std::int64_t>(list.tiles, 300)));
    unsigned next = 0;  // the first block without a team
    for (int i = 0; i < tensors; ++i) {
      unsigned first = 0;
      const unsigned team = list.TeamOf(i, blocks, &first);
      EXPECT_TRUE(team <= first_tile[i + 1] - first_tile[i]);
      // Blocks come to their teams in the order of the tensors: a team consists
      // of new blocks, or is the last block of the one before.
      EXPECT_TRUE(first == next || (team == 1 && first + 1 == next));
      next = std::max(next, first + team);
    }
    EXPECT_EQ(next, blocks);
  }
}

}  // namespace
}  // namespace fedplug::testing
