// Every SIMD level this processor has, against the plain loops.
#include "core/topk_blocks.h"

#include <array>
#include <numeric>

#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using topk::Band;
using topk::BlockKernels;
using topk::BlockKernelsFor;
using topk::kSlack;
using topk::SiftCursor;
using topk::SplitCursor;
using topk::SurveyCursor;

constexpr SimdLevel kLevels[] = {SimdLevel::kBaseline, SimdLevel::kAvx2,
                                 SimdLevel::kAvx512};

// Calls body(level, delta, residual, band) with blocks of all sizes and fills,
// and bands that hold all, some or nothing.
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
        for (const Band<float>& band :
             {Band<float>{one, two}, Band<float>{one, one}, Band<float>{0, 0},
              Band<float>{0, infinity}, Band<float>{infinity, infinity},
              Band<float>{one + 1, two, one}, Band<float>{1, two, 0}}) {
          body(level, delta, residual, band);
        }
      }
    }
  }
}

TEST(TopKBlocks, EveryLevelSurveysAlike) {
  ForEachBlock([](SimdLevel level, const std::vector<float>& delta,
                  const std::vector<float>& residual, const Band<float>& band) {
    const auto n = static_cast<std::int64_t>(delta.size());
    const auto survey = [&](SimdLevel which) {
      std::vector<std::uint32_t> keys(delta.size() + kSlack);
      SurveyCursor<float> cursor{keys.data()};
      Buffer<float> shifted(residual, 1);
      const std::uint32_t largest = BlockKernelsFor<float>(which).survey(
          delta.data(), shifted.data(), n, band, &cursor);
      keys.resize(static_cast<std::size_t>(cursor.in_band));
      for (const std::int64_t count :
           {std::int64_t{largest}, cursor.above, cursor.at_edge}) {
        keys.push_back(static_cast<std::uint32_t>(count));
      }
      return keys;
    };
    EXPECT_EQ(survey(level), survey(SimdLevel::kBaseline));
  });
}

TEST(TopKBlocks, EveryLevelSplitsAlike) {
  ForEachBlock([](SimdLevel level, const std::vector<float>& delta,
                  const std::vector<float>& residual, const Band<float>& band) {
    const auto n = static_cast<std::int64_t>(delta.size());
    // Everything a split gives, as one list of numbers.
    const auto split = [&](BlockKernels<float>::Split* split_block,
                           bool in_place) {
      std::vector<float> values(delta.size() + kSlack);
      std::vector<std::int32_t> indices(values.size());
      std::vector<std::uint32_t> keys(values.size());
      SplitCursor<float> cursor{values.data(), indices.data(), keys.data()};
      // In place across two lines of the cache, elsewhere from one line on.
      Buffer<float> before(residual, 1);
      alignas(64) std::array<float, topk::kBlock> after;
      float* const left = in_place ? before.data() : after.data();
      const std::uint32_t largest = split_block(delta.data(), before.data(),
                                                left, n, 1000, band, &cursor);
      topk::FenceStreamedStores();
      std::vector<std::int64_t> all = {largest, cursor.count, cursor.in_band};
      for (std::int64_t j = 0; j < cursor.count; ++j) {
        all.push_back(ToBits(cursor.values[j]));
        all.push_back(cursor.indices[j]);
      }
      all.insert(all.end(), keys.begin(), keys.begin() + cursor.in_band);
      for (std::int64_t i = 0; i < n; ++i) all.push_back(ToBits(left[i]));
      return all;
    };
    const auto expected = split(topk::SplitBlock<float>, true);
    const BlockKernels<float> kernels = BlockKernelsFor<float>(level);
    for (const bool in_place : {true, false}) {
      EXPECT_EQ(split(kernels.split_sparse, in_place), expected);
      EXPECT_EQ(split(kernels.split_dense, in_place), expected);
    }
    EXPECT_EQ(split(kernels.split_streaming, false), expected);
  });
}

TEST(TopKBlocks, EveryLevelSiftsAlike) {
  ForEachBlock([](SimdLevel level, const std::vector<float>& listed,
                  const std::vector<float>& /*residual*/,
                  const Band<float>& band) {
    const auto n = static_cast<std::int64_t>(listed.size());
    std::vector<std::int32_t> indices(listed.size());
    std::iota(indices.begin(), indices.end(), 1000);
    const auto sift = [&](SimdLevel which) {
      std::vector<float> values(listed.size() + kSlack);
      std::vector<std::int32_t> kept(values.size());
      std::vector<std::int32_t> from_band(values.size());
      SiftCursor<float> cursor{values.data(), kept.data(), from_band.data()};
      BlockKernelsFor<float>(which).sift(listed.data(), indices.data(), n,
                                         band.lo, band.hi, &cursor);
      std::vector<std::int64_t> all = {cursor.count, cursor.in_band};
      for (std::int64_t j = 0; j < cursor.count; ++j) {
        all.push_back(ToBits(cursor.values[j]));
        all.push_back(cursor.indices[j]);
      }
      all.insert(all.end(), from_band.begin(),
                 from_band.begin() + cursor.in_band);
      return all;
    };
    EXPECT_EQ(sift(level), sift(SimdLevel::kBaseline));
  });
}

}  // namespace
}  // namespace fedplug::testing
