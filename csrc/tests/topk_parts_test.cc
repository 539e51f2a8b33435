// The block loops of the selection at every SIMD level that this processor has, against the plain loops.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/simd/stream.h"
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
                                 SimdLevel::kAvx512, SimdLevel::kNeon};

// Levels may give different NaNs.
template <typename T>
std::int64_t OneNaN(FloatBitsOf<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  const bool nan = MagnitudeKey(value) > FloatTraits<T>::kInfinity;
  return nan ? -1 : static_cast<std::int64_t>(bits);
}
template <typename T>
std::int64_t OneNaN(T value) {
  return OneNaN<T>(ToBits(value));
}

// Calls body(level, delta, residual, range) with blocks of all sizes and fills,
// and ranges that hold all, some or nothing.
template <typename T, typename Body>
void ForEachBlock(const Body& body) {
  Random random(1);
  for (const SimdLevel level : kLevels) {
    if (!IsSupported(level)) continue;
    SCOPED_TRACE(NameOf(level));
    for (const std::int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 100, 2048}) {
      for (const Fill fill : kAllFills) {
        SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                     std::to_string(static_cast<int>(fill)));
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        const FloatBitsOf<T> infinity = FloatTraits<T>::kInfinity;
        const FloatBitsOf<T> one = infinity / 2;
        const auto two = static_cast<FloatBitsOf<T>>(one + infinity / 30);
        const auto above_one = static_cast<FloatBitsOf<T>>(one + 1);
        for (const PivotRange<T>& range :
             {PivotRange<T>{one, two}, PivotRange<T>{one, one},
              PivotRange<T>{0, 0}, PivotRange<T>{0, infinity},
              PivotRange<T>{infinity, infinity},
              PivotRange<T>{above_one, two, one}, PivotRange<T>{1, two, 0}}) {
          body(level, delta, residual, range);
        }
      }
    }
  }
}

template <typename T>
void ExpectCountsAlike() {
  ForEachBlock<T>([](SimdLevel level, const std::vector<T>& delta,
                     const std::vector<T>& residual,
                     const PivotRange<T>& range) {
    const auto n = static_cast<std::int64_t>(delta.size());
    const auto count_pass = [&](SimdLevel which) {
      std::vector<FloatBitsOf<T>> keys(delta.size() + kSlack);
      CountCursor<T> cursor{keys.data()};
      Buffer<T> shifted(residual, 1);
      const FloatBitsOf<T> largest = BlockKernelsFor<T>(which).count_pass(
          delta.data(), shifted.data(), n, range, &cursor);
      std::vector<std::int64_t> all = {OneNaN<T>(largest), cursor.above,
                                       cursor.at_edge};
      all.insert(all.end(), keys.begin(), keys.begin() + cursor.in_range);
      BlockKernelsFor<T>(which).sum_keys(delta.data(), shifted.data(), n,
                                         keys.data());
      all.insert(all.end(), keys.begin(), keys.begin() + n);
      return all;
    };
    EXPECT_EQ(count_pass(level), count_pass(SimdLevel::kBaseline));
  });
}

template <typename T>
void ExpectPartitionsAlike() {
  ForEachBlock<T>([](SimdLevel level, const std::vector<T>& delta,
                     const std::vector<T>& residual,
                     const PivotRange<T>& range) {
    const auto n = static_cast<std::int64_t>(delta.size());
    // Everything a partition gives, as one list of numbers.
    const auto partition =
        [&](typename BlockKernels<T>::Partition* partition_block,
            bool in_place) {
          std::vector<T> values(delta.size() + kSlack);
          std::vector<std::int32_t> indices(values.size());
          std::vector<FloatBitsOf<T>> keys(values.size());
          std::vector<std::uint16_t> distances(delta.size());
          std::vector<T> residuals(delta.size());
          PartitionCursor<T> cursor{values.data(), indices.data(), keys.data()};
          cursor.notes = {distances.data(), residuals.data()};
          // In place across two lines of the cache, elsewhere from one line on.
          Buffer<T> before(residual, 1);
          alignas(64) std::array<T, topk::kBlock> after;
          T* const left = in_place ? before.data() : after.data();
          const FloatBitsOf<T> largest = partition_block(
              delta.data(), before.data(), left, n, 1000, range, &cursor);
          FenceStreamedStores();
          std::vector<std::int64_t> all = {OneNaN<T>(largest), cursor.count,
                                           cursor.in_range};
          for (std::int64_t j = 0; j < cursor.count; ++j) {
            all.push_back(OneNaN(cursor.values[j]));
            all.push_back(cursor.indices[j]);
          }
          all.insert(all.end(), keys.begin(), keys.begin() + cursor.in_range);
          for (std::int64_t i = 0; i < n; ++i) all.push_back(OneNaN(left[i]));
          return all;
        };
    const auto expected = partition(topk::PartitionBlock<T>, true);
    const BlockKernels<T> kernels = BlockKernelsFor<T>(level);
    for (const bool in_place : {true, false}) {
      EXPECT_EQ(partition(kernels.partition_sparse, in_place), expected);
      EXPECT_EQ(partition(kernels.partition_dense, in_place), expected);
    }
    EXPECT_EQ(partition(kernels.partition_noting_sparse, true), expected);
    EXPECT_EQ(partition(kernels.partition_noting_dense, true), expected);
    EXPECT_EQ(partition(kernels.partition_streaming, false), expected);
  });
}

template <typename T>
void ExpectTakesAlike() {
  ForEachBlock<T>([](SimdLevel level, const std::vector<T>& delta,
                     const std::vector<T>& residual,
                     const PivotRange<T>& range) {
    const auto n = static_cast<std::int64_t>(delta.size());
    std::vector<T> marks(delta.size());
    for (std::size_t i = 0; i < marks.size(); ++i) {
      if (MagnitudeKey(delta[i]) < range.hi) continue;
      const FloatBitsOf<T> bits = FloatTraits<T>::kInfinity;
      std::memcpy(&marks[i], &bits, sizeof(bits));
    }
    std::vector<std::int64_t> expected = {0};
    FloatBitsOf<T> largest_key = 0;
    for (std::size_t i = 0; i < delta.size(); ++i) {
      const T a = static_cast<T>(delta[i] + residual[i]);
      largest_key = std::max(largest_key, MagnitudeKey(a));
      expected.push_back(OneNaN(MagnitudeKey(marks[i]) != 0 ? T{} : a));
    }
    expected[0] = OneNaN<T>(largest_key);
    const auto take = [&](typename BlockKernels<T>::Take* take_block,
                          bool in_place) {
      Buffer<T> before(residual, 1);
      alignas(64) std::array<T, topk::kBlock> after;
      T* const left = in_place ? before.data() : after.data();
      std::vector<std::int64_t> all = {OneNaN<T>(
          take_block(delta.data(), before.data(), left, n, marks.data()))};
      FenceStreamedStores();
      for (std::int64_t i = 0; i < n; ++i) all.push_back(OneNaN(left[i]));
      return all;
    };
    const BlockKernels<T> kernels = BlockKernelsFor<T>(level);
    EXPECT_EQ(take(kernels.take, true), expected);
    EXPECT_EQ(take(kernels.take, false), expected);
    EXPECT_EQ(take(kernels.take_streaming, false), expected);
  });
}

template <typename T>
void ExpectCompactsAlike() {
  ForEachBlock<T>([](SimdLevel level, const std::vector<T>& listed,
                     const std::vector<T>& /*residual*/,
                     const PivotRange<T>& range) {
    const auto n = static_cast<std::int64_t>(listed.size());
    std::vector<T> padded = listed;  // the loops read into the slack
    padded.resize(listed.size() + kSlack);
    std::vector<std::int32_t> indices(padded.size());
    std::iota(indices.begin(), indices.end(), 1000);
    const auto compact = [&](SimdLevel which) {
      std::vector<T> values(padded.size());
      std::vector<std::int32_t> kept(values.size());
      std::vector<std::int32_t> from_range(values.size());
      CompactCursor<T> cursor{values.data(), kept.data(), from_range.data()};
      BlockKernelsFor<T>(which).compact(padded.data(), indices.data(), n,
                                        range.lo, range.hi, &cursor);
      std::vector<std::int64_t> all = {cursor.count, cursor.in_range};
      for (std::int64_t j = 0; j < cursor.count; ++j) {
        all.push_back(OneNaN(cursor.values[j]));
        all.push_back(cursor.indices[j]);
      }
      all.insert(all.end(), from_range.begin(),
                 from_range.begin() + cursor.in_range);
      return all;
    };
    EXPECT_EQ(compact(level), compact(SimdLevel::kBaseline));
  });
}

// In place, once with notes that begin with a cache line and once with others.
template <typename T>
void ExpectNotesToRecallEveryResidual() {
  ForEachBlock<T>([](SimdLevel level, const std::vector<T>& delta,
                     const std::vector<T>& residual,
                     const PivotRange<T>& range) {
    const auto n = static_cast<std::int64_t>(delta.size());
    const BlockKernels<T> kernels = BlockKernelsFor<T>(level);
    for (auto* const partition_block :
         {kernels.partition_noting_sparse, kernels.partition_noting_dense}) {
      for (const std::int64_t shift : {0, 1}) {
        alignas(64) std::array<std::uint16_t, topk::kBlock + 1> distances;
        std::array<T, topk::kBlock + 1> residuals;
        std::vector<T> values(delta.size() + kSlack);
        std::vector<std::int32_t> indices(values.size());
        std::vector<FloatBitsOf<T>> keys(values.size());
        PartitionCursor<T> cursor{values.data(), indices.data(), keys.data()};
        cursor.notes = {distances.data() + shift, residuals.data() + shift};
        const topk::UndoNotes<T> notes = cursor.notes;
        auto left = residual;
        partition_block(delta.data(), left.data(), left.data(), n, 0, range,
                        &cursor);
        FenceStreamedStores();
        for (std::int64_t j = 0; j < cursor.count; ++j) {
          left[static_cast<std::size_t>(cursor.indices[j])] = cursor.values[j];
        }
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          // The sums that are not finite need not be there any more.
          const T a = IsFinite(left[at]) ? left[at] : T{};
          left[at] = notes.Recall(i, a, delta[at]);
        }
        EXPECT_EQ(BitsOf(left), BitsOf(residual));
      }
    }
  });
}

TEST(TopKBlocks, EveryLevelIsAlikeAndItsNotesRecallEveryResidual) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    ExpectCountsAlike<T>();
    ExpectPartitionsAlike<T>();
    ExpectTakesAlike<T>();
    ExpectCompactsAlike<T>();
    ExpectNotesToRecallEveryResidual<T>();
  });
}

}  // namespace
}  // namespace fedplug::testing
