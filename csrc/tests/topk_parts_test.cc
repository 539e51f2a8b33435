// The parts of the selection that have a promise of their own: where chunks and
// blocks begin, and the key at a rank.
#include <algorithm>
#include <functional>

#include "core/topk_rank.h"
#include "core/topk_update.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using topk::Chunk;
using topk::CutIntoChunks;
using topk::FindRank;
using topk::ForEachBlock;
using topk::kBlock;
using topk::kChunk;
using topk::Update;

TEST(TopKChunks, CoverATensorOnceAndBeginWithALineOfItsResidual) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
    alignas(64) static T memory[2 * kLine];
    for (const std::int64_t shift :
         {std::int64_t{0}, std::int64_t{1}, kLine / 2, kLine - 1}) {
      for (const std::int64_t n :
           {std::int64_t{0}, std::int64_t{1}, kBlock, kChunk, 3 * kChunk + 5}) {
        SCOPED_TRACE("shift " + std::to_string(shift) + ", n " +
                     std::to_string(n));
        const Update<T> update{nullptr, nullptr, memory + shift, n};
        std::int64_t covered = 0;
        for (const Chunk& chunk : CutIntoChunks(std::vector{update})) {
          ForEachBlock(
              update, chunk.begin, chunk.end,
              [&](std::int64_t begin, std::int64_t count) {
                EXPECT_EQ(begin, covered);
                EXPECT_TRUE(count > 0 && count <= kBlock);
                EXPECT_TRUE(begin == 0 || (shift + begin) % kLine == 0);
                covered += count;
              });
          EXPECT_EQ(chunk.end, covered);
        }
        EXPECT_EQ(covered, n);
      }
    }
  });
}

TEST(FindRank, FindsWhatASortFinds) {
  Random random(1);
  for (const std::int64_t count : {1, 2, 16, 17, 100, 3000, 70000}) {
    for (const std::uint32_t width : {1u, 5u, 4000u, 0x7f800000u}) {
      const std::uint32_t lo = width == 0x7f800000u ? 0 : 0x3f800000;
      std::vector<std::uint32_t> keys;
      for (std::int64_t i = 0; i < count; ++i) {
        keys.push_back(lo + static_cast<std::uint32_t>(random() % width));
      }
      auto sorted = keys;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (const std::int64_t rank :
           {std::int64_t{1}, (count + 1) / 2, count}) {
        SCOPED_TRACE("count " + std::to_string(count) + ", width " +
                     std::to_string(width) + ", rank " + std::to_string(rank));
        auto lost = keys;
        const auto found = FindRank(lost.data(), count, rank, lo, lo + width);
        EXPECT_EQ(found.key, sorted[static_cast<std::size_t>(rank - 1)]);
        EXPECT_EQ(found.above, std::lower_bound(sorted.begin(), sorted.end(),
                                                found.key, std::greater<>()) -
                                   sorted.begin());
      }
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
