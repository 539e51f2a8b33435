// One walk with the partition of topk/blocks.h, whose pivot range is empty:
// what reaches the bound leaves. Each thread lists what it finds in its share.
#include "core/threshold_residual.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "core/base/float_bits.h"
#include "core/base/float_environment.h"
#include "core/base/tiles.h"
#include "core/simd/stream.h"
#include "core/topk/blocks.h"
#include "core/topk/sum_refusal.h"
#include "core/topk/update.h"

namespace fedplug {
namespace {

using topk::BlockKernels;
using topk::kBlock;
using topk::kSlack;
using topk::PivotRange;

// Below this many elements a second thread takes longer to wake than to work.
constexpr std::int64_t kSmallestShare = 1 << 19;

// From this density on, most vectors have an entry.
constexpr std::int64_t kDense = 20;

template <typename T>
Status CheckArguments(std::int64_t n, T threshold) {
  if (n < 0 || n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "n = " + std::to_string(n) + " is not in [0, 2^31)"};
  }
  constexpr auto kSign =
      static_cast<FloatBitsOf<T>>(FloatBitsOf<T>{1} << kKeyBits<T>);
  const FloatBitsOf<T> bits = ToBits(threshold);
  const bool is_nan = MagnitudeKey(threshold) > FloatTraits<T>::kInfinity;
  if (is_nan || bits > kSign) {
    return {StatusCode::kInvalidArgument,
            "the threshold is negative or no number"};
  }
  return {};
}

// Calls body(begin, count) for the blocks of a share, until it says false.
template <typename Body>
bool ForEachBlock(const Range& share, const Body& body) {
  for (std::int64_t at = share.begin; at < share.end; at += kBlock) {
    if (!body(at, std::min(kBlock, share.end - at))) return false;
  }
  return true;
}

// Calls body(share, t) for every task's share, whole blocks, and says whether
// all were good.
template <typename Body>
bool ForEachShare(std::int64_t n, int tasks, Parallel& parallel,
                  const Body& body) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  std::atomic<bool> good{true};
  parallel.Run(tasks, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(blocks, tasks, t);
    const Range share{mine.begin * kBlock, std::min(n, mine.end * kBlock)};
    if (!body(share, t)) good = false;
  });
  return good;
}

// How many sums of a share are at `bound` and above; false when one is not
// finite.
template <typename T>
bool CountEntries(const BlockKernels<T>& kernels, const T* delta,
                  const T* residual, const Range& share, FloatBitsOf<T> bound,
                  std::atomic<std::int64_t>* count) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  std::array<FloatBitsOf<T>, kSlack> no_keys;
  topk::CountCursor<T> cursor{no_keys.data()};
  const bool finite =
      ForEachBlock(share, [&](std::int64_t at, std::int64_t length) {
        return kernels.count_pass(delta + at, residual + at, length,
                                  {bound, bound}, &cursor) < kInfinity;
      });
  *count += cursor.above;
  return finite;
}

}  // namespace

template <typename T>
Status ThresholdSelection<T>::Run(
    const T* delta, const T* residual_in, T* residual_out, std::int64_t n,
    T threshold, Parallel& parallel, std::int64_t* non_finite,
    const std::function<void(std::int64_t)>& before_writing) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  *non_finite = 0;
  found_.clear();
  if (Status status = CheckArguments(n, threshold); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const auto kernels = topk::BlockKernelsFor<T>(level);
  const int tasks = TileCount(n, kSmallestShare, parallel);
  // The smallest key that is not zero's is 1.
  const auto bound = std::max<FloatBitsOf<T>>(MagnitudeKey(threshold), 1);
  if (residual_in == residual_out) {
    std::atomic<std::int64_t> entries{0};
    const auto count_entries = [&](const Range& share, int) {
      return CountEntries(kernels, delta, residual_in, share, bound, &entries);
    };
    if (!ForEachShare(n, tasks, parallel, count_entries)) {
      return RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
    }
    if (before_writing) before_writing(entries);
  }

  const PivotRange<T> range{bound, bound};
  T* const values = scratch_->values.template Reserve<T>(n + tasks * kSlack);
  std::int32_t* const indices =
      scratch_->indices.template Reserve<std::int32_t>(n + tasks * kSlack);
  found_.resize(static_cast<std::size_t>(tasks));
  auto* const partition_sparse =
      residual_in != residual_out &&
              n >= kStreamedBytes / static_cast<std::int64_t>(sizeof(T))
          ? kernels.partition_streaming
          : kernels.partition_sparse;
  const auto partition = [&](const Range& share, int t) {
    const std::int64_t room = share.begin + t * kSlack;
    std::array<FloatBitsOf<T>, kSlack> no_keys;
    topk::PartitionCursor<T> cursor{values + room, indices + room,
                                    no_keys.data()};
    const bool finite =
        ForEachBlock(share, [&](std::int64_t at, std::int64_t count) {
          const T* const residual =
              residual_in == nullptr ? topk::PlusZeros<T>() : residual_in + at;
          const bool dense = cursor.count * kDense > at - share.begin;
          auto* const partition_block =
              dense ? kernels.partition_dense : partition_sparse;
          return partition_block(delta + at, residual, residual_out + at, count,
                                 static_cast<std::int32_t>(at), range,
                                 &cursor) < kInfinity;
        });
    topk::FenceStreamedStores();
    found_[static_cast<std::size_t>(t)] = {values + room, indices + room,
                                           cursor.count};
    return finite;
  };
  if (ForEachShare(n, tasks, parallel, partition)) return {};
  found_.clear();
  return RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
}

template <typename T>
std::int64_t ThresholdSelection<T>::count() const {
  std::int64_t count = 0;
  for (const Found& found : found_) count += found.count;
  return count;
}

template <typename T>
void ThresholdSelection<T>::Write(Parallel& parallel, T* values,
                                  std::int32_t* indices) const {
  std::vector<std::int64_t> first_entry{0};
  for (const Found& found : found_) {
    first_entry.push_back(first_entry.back() + found.count);
  }
  parallel.Run(static_cast<int>(found_.size()), [&](int t) {
    const auto task = static_cast<std::size_t>(t);
    const Found& found = found_[task];
    std::copy_n(found.values, found.count, values + first_entry[task]);
    std::copy_n(found.indices, found.count, indices + first_entry[task]);
  });
}

template class ThresholdSelection<float>;
template class ThresholdSelection<double>;
template class ThresholdSelection<Half>;
template class ThresholdSelection<BFloat16>;

}  // namespace fedplug
