// The pool of blocks: freed blocks are reused, within its limits. tests/kernels
// uses it from many threads, and without memory.
#include "core/base/block_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/test.h"

namespace fedplug::testing {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr BlockPool::Limits kLimits = {0, 64 * kMiB, 1000};

TEST(BlockPool, ReusesAFreedBlockOfSimilarSize) {
  BlockPool pool(kLimits);
  void* const first = pool.Take(10 * kMiB);
  pool.GiveBack(first);
  void* const second = pool.Take(10 * kMiB - 1000);
  EXPECT_EQ(second, first);
  pool.GiveBack(second);
}

TEST(BlockPool, NeverSharesABlock) {
  BlockPool pool(kLimits);
  void* const first = pool.Take(kMiB);
  void* const second = pool.Take(kMiB);
  EXPECT_TRUE(first != second);
  pool.GiveBack(first);
  pool.GiveBack(second);
  // The last used block is more likely in the cache.
  void* const third = pool.Take(kMiB);
  EXPECT_EQ(third, second);
  pool.GiveBack(third);
}

TEST(BlockPool, DoesNotWasteALargeBlockOnASmallResult) {
  BlockPool pool(kLimits);
  void* const large = pool.Take(10 * kMiB);
  pool.GiveBack(large);
  void* const small = pool.Take(8 * kMiB);
  EXPECT_TRUE(small != large);
  pool.GiveBack(small);
}

TEST(BlockPool, GivesAlignedBlocksOfTheWholeSize) {
  BlockPool pool(kLimits);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4097}, 3 * kMiB + 7}) {
    void* const block = pool.Take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % BlockPool::kAlignment,
              std::uintptr_t{0});
    std::memset(block, 1, bytes);
    pool.GiveBack(block);
  }
}

TEST(BlockPool, AllocatesAtMostAQuarterMore) {
  for (std::size_t bytes = 4096; bytes < 40 * kMiB; bytes += bytes / 7) {
    BlockPool pool(kLimits);
    pool.GiveBack(pool.Take(bytes));
    EXPECT_TRUE(pool.IdleBytes() >= bytes);
    EXPECT_TRUE(pool.IdleBytes() <= bytes + bytes / 8 + 4096);
  }
  BlockPool pool(kLimits);
  pool.GiveBack(pool.Take(10 * kMiB));
  EXPECT_EQ(pool.IdleBytes(), 10 * kMiB);
}

#if defined(__linux__)
TEST(BlockPool, BeginsLargeBlocksWithHugePages) {
  BlockPool pool(kLimits);
  std::vector<void*> blocks;
  for (const std::size_t bytes : {2 * kMiB, 3 * kMiB + 7, 10 * kMiB}) {
    blocks.push_back(pool.Take(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % (2 * kMiB),
              std::uintptr_t{0});
    std::memset(blocks.back(), 1, bytes);
  }
  for (void* const block : blocks) pool.GiveBack(block);
}
#endif

TEST(BlockPool, FreesSmallBlocksAtOnce) {
  BlockPool pool({kMiB, 64 * kMiB, 1000});
  pool.GiveBack(pool.Take(kMiB - 1));
  EXPECT_EQ(pool.IdleBytes(), std::size_t{0});
  pool.GiveBack(pool.Take(kMiB));
  EXPECT_EQ(pool.IdleBytes(), kMiB);
}

TEST(BlockPool, KeepsNoMoreThanItsLimit) {
  BlockPool pool({0, 10 * kMiB, 1000});
  std::vector<void*> blocks(20);
  for (void*& block : blocks) block = pool.Take(kMiB);
  EXPECT_EQ(pool.IdleBytes(), std::size_t{0});
  for (void* const block : blocks) pool.GiveBack(block);
  EXPECT_EQ(pool.IdleBytes(), 10 * kMiB);

  void* const too_large = pool.Take(11 * kMiB);
  pool.GiveBack(too_large);
  EXPECT_TRUE(pool.IdleBytes() <= 10 * kMiB);
}

TEST(BlockPool, FreesBlocksThatAreIdleForLong) {
  BlockPool pool({0, 64 * kMiB, 5});
  pool.GiveBack(pool.Take(32 * kMiB));
  for (int take = 0; take < 5; ++take) pool.GiveBack(pool.Take(kMiB));
  EXPECT_EQ(pool.IdleBytes(), 33 * kMiB);
  pool.GiveBack(pool.Take(kMiB));
  EXPECT_EQ(pool.IdleBytes(), kMiB);
}

}  // namespace
}  // namespace fedplug::testing
