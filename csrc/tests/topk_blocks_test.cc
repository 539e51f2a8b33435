// Every SIMD level this processor has, against the plain loops.
#include <array>
#include <numeric>

#include "core/topk/blocks.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using topk::BlockKernels;
using topk::BlockKernelsFor;
using topk::CompactCursor;
using topk::CountCursor;
using topk::kSlack;
using topk::PartitionCursor;
using topk::PivotRange;

constexpr SimdLevel kLevels[] = {SimdLevel::kBaseline, SimdLevel::kAvx2,
                                 SimdLevel::kAvx512};

// Calls body(level, delta, residual, range) with blocks of all sizes and fills,
// and ranges that hold all, some or nothing.
template <typename Body>
void ForEachBlock(const Body& body) {
  Random random(1);
  for (const SimdLevel level : kLevels) {
    if (!IsSupported(level)) continue;
    SCOPED_TRACE(NameOf(level));
    for (const std::int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 100, 2048}) {
      for (const Fill fill : kAllFills) {
        SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                     std::to_string(static_cast<int>(fill)));
        const auto delta = RandomVector<float>(n, fill, random);
        const auto residual = RandomVector<float>(n, fill, random);
        const std::uint32_t one = MagnitudeKey(1.0f);
        const std::uint32_t two = MagnitudeKey(2.0f);
        const std::uint32_t infinity = MagnitudeKey(INFINITY);
        for (const PivotRange<float>& range :
             {PivotRange<float>{one, two}, PivotRange<float>{one, one},
              PivotRange<float>{0, 0}, PivotRange<float>{0, infinity},
              PivotRange<float>{infinity, infinity},
              PivotRange<float>{one + 1, two, one},
              PivotRange<float>{1, two, 0}}) {
          body(level, delta, residual, range);
        }
      }
    }
  }
}

TEST(TopKBlocks, EveryLevelCountsAlike) {
  ForEachBlock([](SimdLevel level, const std::vector<float>& delta,
                  const std::vector<float>& residual,
                  const PivotRange<float>& range) {
    const auto n = static_cast<std::int64_t>(delta.size());
    const auto count_pass = [&](SimdLevel which) {
      std::vector<std::uint32_t> keys(delta.size() + kSlack);
      CountCursor<float> cursor{keys.data()};
      Buffer<float> shifted(residual, 1);
      const std::uint32_t largest = BlockKernelsFor<float>(which).count_pass(
          delta.data(), shifted.data(), n, range, &cursor);
      keys.resize(static_cast<std::size_t>(cursor.in_range));
      for (const std::int64_t count :
           {std::int64_t{largest}, cursor.above, cursor.at_edge}) {
        keys.push_back(static_cast<std::uint32_t>(count));
      }
      return keys;
    };
    EXPECT_EQ(count_pass(level), count_pass(SimdLevel::kBaseline));
  });
}

TEST(TopKBlocks, EveryLevelSplitsAlike) {
  ForEachBlock([](SimdLevel level, const std::vector<float>& delta,
                  const std::vector<float>& residual,
                  const PivotRange<float>& range) {
    const auto n = static_cast<std::int64_t>(delta.size());
    // Everything a partition gives, as one list of numbers.
    const auto partition = [&](BlockKernels<float>::Partition* partition_block,
                               bool in_place) {
      std::vector<float> values(delta.size() + kSlack);
      std::vector<std::int32_t> indices(values.size());
      std::vector<std::uint32_t> keys(values.size());
      PartitionCursor<float> cursor{values.data(), indices.data(), keys.data()};
      // In place across two lines of the cache, elsewhere from one line on.
      Buffer<float> before(residual, 1);
      alignas(64) std::array<float, topk::kBlock> after;
      float* const left = in_place ? before.data() : after.data();
      const std::uint32_t largest = partition_block(
          delta.data(), before.data(), left, n, 1000, range, &cursor);
      topk::FenceStreamedStores();
      std::vector<std::int64_t> all = {largest, cursor.count, cursor.in_range};
      for (std::int64_t j = 0; j < cursor.count; ++j) {
        all.push_back(ToBits(cursor.values[j]));
        all.push_back(cursor.indices[j]);
      }
      all.insert(all.end(), keys.begin(), keys.begin() + cursor.in_range);
      for (std::int64_t i = 0; i < n; ++i) all.push_back(ToBits(left[i]));
      return all;
    };
    const auto expected = partition(topk::PartitionBlock<float>, true);
    const BlockKernels<float> kernels = BlockKernelsFor<float>(level);
    for (const bool in_place : {true, false}) {
      EXPECT_EQ(partition(kernels.partition_sparse, in_place), expected);
      EXPECT_EQ(partition(kernels.partition_dense, in_place), expected);
    }
    EXPECT_EQ(partition(kernels.partition_streaming, false), expected);
  });
}

TEST(TopKBlocks, EveryLevelSiftsAlike) {
  ForEachBlock([](SimdLevel level, const std::vector<float>& listed,
                  const std::vector<float>& /*residual*/,
                  const PivotRange<float>& range) {
    const auto n = static_cast<std::int64_t>(listed.size());
    std::vector<std::int32_t> indices(listed.size());
    std::iota(indices.begin(), indices.end(), 1000);
    const auto compact = [&](SimdLevel which) {
      std::vector<float> values(listed.size() + kSlack);
      std::vector<std::int32_t> kept(values.size());
      std::vector<std::int32_t> from_range(values.size());
      CompactCursor<float> cursor{values.data(), kept.data(),
                                  from_range.data()};
      BlockKernelsFor<float>(which).compact(listed.data(), indices.data(), n,
                                            range.lo, range.hi, &cursor);
      std::vector<std::int64_t> all = {cursor.count, cursor.in_range};
      for (std::int64_t j = 0; j < cursor.count; ++j) {
        all.push_back(ToBits(cursor.values[j]));
        all.push_back(cursor.indices[j]);
      }
      all.insert(all.end(), from_range.begin(),
                 from_range.begin() + cursor.in_range);
      return all;
    };
    EXPECT_EQ(compact(level), compact(SimdLevel::kBaseline));
  });
}

}  // namespace
}  // namespace fedplug::testing
