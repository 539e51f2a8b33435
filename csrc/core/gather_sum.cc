// What is gathered is far apart and seldom in the cache, so it is asked for
// ahead. What leaves a sum leaves it while a block of sums is in the cache,
// before the block is written to the residual.
#include "core/gather_sum.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "core/base/float_environment.h"
#include "core/base/tiles.h"
#include "core/simd/stream.h"
#include "core/topk/blocks.h"
#include "core/topk/sizes.h"
#include "core/topk/sum_refusal.h"
#include "core/topk/update.h"

namespace fedplug {
namespace {

using topk::kBlock;
using topk::kSlack;

// Below so many a second thread takes longer to wake than to work.
constexpr std::int64_t kFewestIndices = 1 << 14;
constexpr std::int64_t kFewestElements = 1 << 19;

constexpr std::int64_t kAhead = 32;

// Each must be above the one before where they shall `ascend`.
Status CheckIndices(const std::int32_t* indices, std::int64_t count,
                    std::int64_t n, bool ascend) {
  if (Status status = topk::CheckSizes(n, count); !status.ok()) return status;
  for (std::int64_t j = 0; j < count; ++j) {
    if (indices[j] < 0 || indices[j] >= n) {
      return {StatusCode::kInvalidArgument,
              "index " + std::to_string(indices[j]) + " at position " +
                  std::to_string(j) + " is not in [0, " + std::to_string(n) +
                  ")"};
    }
    if (ascend && j > 0 && indices[j] <= indices[j - 1]) {
      return {StatusCode::kInvalidArgument,
              "the indices do not ascend at position " + std::to_string(j)};
    }
  }
  return {};
}

template <typename T>
T SumAt(const T* delta, const T* residual, std::int64_t i) {
  return residual == nullptr ? delta[i]
                             : static_cast<T>(delta[i] + residual[i]);
}

}  // namespace

template <typename T>
Status GatherSum(const T* delta, const T* residual, std::int64_t n,
                 const std::int32_t* indices, std::int64_t count,
                 Parallel& parallel, T* values) {
  if (Status status = CheckIndices(indices, count, n, false); !status.ok()) {
    return status;
  }
  const int tiles = TileCount(count, kFewestIndices, parallel);
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(count, tiles, t);
    for (std::int64_t j = mine.begin; j < mine.end; ++j) {
      const std::int32_t next = indices[std::min(j + kAhead, mine.end - 1)];
      __builtin_prefetch(delta + next);
      if (residual != nullptr) __builtin_prefetch(residual + next);
      values[j] = SumAt(delta, residual, indices[j]);
    }
  });
  return {};
}

template <typename T>
Status TakeFromSum(const T* delta, const T* residual_in, T* residual_out,
                   std::int64_t n, const std::int32_t* indices,
                   std::int64_t count, Parallel& parallel, T* values,
                   std::int64_t* non_finite) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  *non_finite = 0;
  if (Status status = CheckIndices(indices, count, n, true); !status.ok()) {
    return status;
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const bool in_place = residual_in == residual_out;
  if (in_place) {
    Status status =
        RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
    if (!status.ok()) return status;
  }
  const bool streams =
      !in_place && n >= kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
  auto* const partition = topk::BlockKernelsFor<T>(level).partition_sparse;
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  const int tiles = TileCount(n, kFewestElements, parallel);
  std::atomic<bool> finite{true};
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(blocks, tiles, t);
    std::int64_t j =
        std::lower_bound(indices, indices + count, mine.begin * kBlock) -
        indices;
    std::array<T, kBlock> sums;
    for (std::int64_t at = mine.begin * kBlock;
         at < std::min(n, mine.end * kBlock) && finite; at += kBlock) {
      // Only what is not finite reaches this range, and then ends the walk.
      std::array<T, kBlock + kSlack> no_values;
      std::array<std::int32_t, kBlock + kSlack> no_indices;
      std::array<FloatBitsOf<T>, kSlack> no_keys;
      topk::PartitionCursor<T> cursor{no_values.data(), no_indices.data(),
                                      no_keys.data()};
      const std::int64_t length = std::min(kBlock, n - at);
      const T* const residual =
          residual_in == nullptr ? topk::PlusZeros<T>() : residual_in + at;
      if (partition(delta + at, residual, sums.data(), length, 0,
                    {kInfinity, kInfinity}, &cursor) >= kInfinity) {
        finite = false;
        return;
      }
      for (; j < count && indices[j] < at + length; ++j) {
        T* const sum = sums.data() + (indices[j] - at);
        values[j] = *sum;
        *sum = T{};
      }
      if (streams) {
        StreamCopy(sums.data(), length, residual_out + at);
      } else {
        std::copy_n(sums.data(), length, residual_out + at);
      }
    }
    FenceStreamedStores();
  });
  if (finite) return {};
  return RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
}

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template Status GatherSum<T>(const T*, const T*, std::int64_t,               \
                               const std::int32_t*, std::int64_t, Parallel&,   \
                               T*);                                            \
  template Status TakeFromSum<T>(const T*, const T*, T*, std::int64_t,         \
                                 const std::int32_t*, std::int64_t, Parallel&, \
                                 T*, std::int64_t*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
