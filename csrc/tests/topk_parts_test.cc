// The parts of the selection that have a promise of their own: where chunks and
// blocks begin, the keys around a rank, and the key at it.
#include <algorithm>
#include <functional>

#include "core/topk/rank.h"
#include "core/topk/shortlist.h"
#include "core/topk/update.h"
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
  ForEachWideDtype([](auto zero) {
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

TEST(FindRank, EqualsASort) {
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

// Also of keys that a guess from every eighth is misled by.
TEST(ShortlistRanks, HoldsAllKeysOfItsRangeAndTheRanks) {
  constexpr std::uint32_t kLo = 0x3f800000;
  constexpr std::uint32_t kHi = 0x40000000;
  Random random(2);
  SimdLevel level;
  ASSERT_TRUE(FindSimdLevel(&level).ok());
  const auto kernels = topk::BlockKernelsFor<float>(level);
  for (const std::size_t count : {1u, 1000u, 5000u, 70000u}) {
    for (const std::string keys_are : {"random", "equal", "periodic"}) {
      std::vector<std::uint32_t> keys(count, kLo);
      for (std::size_t i = 0; i < count; ++i) {
        const auto part = static_cast<std::uint32_t>(random() % 0x400000);
        if (keys_are == "random") keys[i] = kLo + 2 * part;
        if (keys_are == "periodic") keys[i] = i % 8 == 0 ? kLo + part : kHi - 1;
      }
      for (const std::size_t first : {std::size_t{1}, (count + 1) / 2, count}) {
        const std::size_t last = std::min(count, first + count / 50);
        SCOPED_TRACE(std::to_string(count) + " keys, " + keys_are + ", ranks " +
                     std::to_string(first) + " to " + std::to_string(last));
        std::vector<std::uint32_t> room(count + topk::kSlack);
        const auto list = topk::ShortlistRanks<float>(
            keys.data(), static_cast<std::int64_t>(count),
            static_cast<std::int64_t>(first), static_cast<std::int64_t>(last),
            kLo, kHi, kernels, room.data());
        std::vector<std::uint32_t> in_range;
        std::int64_t above = 0;
        for (const std::uint32_t key : keys) {
          if (key >= list.lo && key < list.hi) in_range.push_back(key);
          above += key >= list.hi;
        }
        EXPECT_TRUE(in_range == std::vector<std::uint32_t>(
                                    list.keys, list.keys + list.count));
        EXPECT_EQ(list.above, above);
        EXPECT_TRUE(list.above < static_cast<std::int64_t>(first));
        EXPECT_TRUE(list.above + list.count >= static_cast<std::int64_t>(last));
      }
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
