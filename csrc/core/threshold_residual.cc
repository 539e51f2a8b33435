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
#include "core/topk/undo_log.h"
#include "core/topk/update.h"

namespace fedplug {
namespace {

using topk::BlockKernels;
using topk::kBlock;
using topk::kSlack;
using topk::PivotRange;
using topk::Update;

// Below this number of elements, waking a second thread takes longer than its
// work.
constexpr std::int64_t kSmallestShare = 1 << 19;

// At this density and above, most vectors have an entry.
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

// Calls body(share, t) for every task's share, whole blocks, and says whether
// all were good.
template <typename T, typename Body>
bool ForEachShare(const Update<T>& update, int tasks, Parallel& parallel,
                  const Body& body) {
  const std::int64_t past = topk::PastLine(update, 0);
  const std::int64_t blocks = (update.n + past + kBlock - 1) / kBlock;
  std::atomic<bool> good{true};
  parallel.Run(tasks, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(blocks, tasks, t);
    const Range share{std::max<std::int64_t>(mine.begin * kBlock - past, 0),
                      std::min(mine.end * kBlock - past, update.n)};
    if (!body(share, t)) good = false;
  });
  return good;
}

// How many sums of a share are at `bound` and above; false when one is not
// finite.
template <typename T>
bool CountEntries(const BlockKernels<T>& kernels, const Update<T>& update,
                  const Range& share, FloatBitsOf<T> bound,
                  std::atomic<std::int64_t>* count) {
  std::array<FloatBitsOf<T>, kSlack> no_keys;
  topk::CountCursor<T> cursor{no_keys.data()};
  FloatBitsOf<T> largest = 0;
  topk::ForEachBlock(update, share.begin, share.end,
                     [&](std::int64_t at, std::int64_t length) {
                       if (largest >= FloatTraits<T>::kInfinity) return;
                       largest = kernels.count_pass(
                           update.delta->Read(at, length, nullptr),
                           update.residual_in + at, length, {bound, bound},
                           &cursor);
                     });
  *count += cursor.above;
  return largest < FloatTraits<T>::kInfinity;
}

}  // namespace

template <typename T>
Status ThresholdSelection<T>::Run(
    const T* delta, const T* residual_in, T* residual_out, std::int64_t n,
    T threshold, Parallel& parallel, std::int64_t* non_finite,
    const std::function<void(std::int64_t)>& before_writing) {
  *non_finite = 0;
  found_.clear();
  if (Status status = CheckArguments(n, threshold); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const auto kernels = topk::BlockKernelsFor<T>(level);
  const int tasks = TileCount(n, kSmallestShare, parallel);
  // The smallest key that is not zero's is 1.
  const auto bound = std::max<FloatBitsOf<T>>(MagnitudeKey(threshold), 1);
  const topk::PlainDelta<T> source(delta);
  std::vector<Update<T>> updates{{&source, residual_in, residual_out, n}};
  Update<T>& update = updates.front();
  const bool in_place = residual_in == residual_out;
  topk::UndoLogs<T> logs;
  if (topk::IsWorthALog(updates)) logs.Attach(&updates, &scratch_->undo);
  if (in_place && update.log == nullptr) {
    std::atomic<std::int64_t> entries{0};
    const auto count_entries = [&](const Range& share, int) {
      return CountEntries(kernels, update, share, bound, &entries);
    };
    if (!ForEachShare(update, tasks, parallel, count_entries)) {
      return RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
    }
    if (before_writing) before_writing(entries);
  }

  const PivotRange<T> range{bound, bound};
  T* const values = scratch_->values.template Reserve<T>(n + tasks * kSlack);
  std::int32_t* const indices =
      scratch_->indices.template Reserve<std::int32_t>(n + tasks * kSlack);
  found_.resize(static_cast<std::size_t>(tasks));
  const bool streams =
      !in_place && n >= kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
  auto* const partition_sparse = update.log != nullptr
                                     ? kernels.partition_noting_sparse
                                 : streams ? kernels.partition_streaming
                                           : kernels.partition_sparse;
  auto* const partition_dense = update.log != nullptr
                                    ? kernels.partition_noting_dense
                                    : kernels.partition_dense;
  const auto partition = [&](const Range& share, int t) {
    const std::int64_t room = share.begin + t * kSlack;
    std::array<FloatBitsOf<T>, kSlack> no_keys;
    topk::PartitionCursor<T> cursor{values + room, indices + room,
                                    no_keys.data()};
    FloatBitsOf<T> largest = 0;
    const auto partition_block = [&](std::int64_t at, std::int64_t count) {
      if (largest >= FloatTraits<T>::kInfinity) return;
      const T* const residual =
          residual_in == nullptr ? topk::PlusZeros<T>() : residual_in + at;
      if (update.log != nullptr) cursor.notes = update.log->NotesFrom(at);
      const bool dense = cursor.count * kDense > at - share.begin;
      largest = (dense ? partition_dense : partition_sparse)(
          delta + at, residual, residual_out + at, count,
          static_cast<std::int32_t>(at), range, &cursor);
    };
    topk::ForEachBlock(update, share.begin, share.end, partition_block);
    FenceStreamedStores();
    found_[static_cast<std::size_t>(t)] = {values + room, indices + room,
                                           cursor.count};
    return largest < FloatTraits<T>::kInfinity;
  };
  const auto undo = [&] {
    for (const Found& found : found_) {
      for (std::int64_t j = 0; j < found.count; ++j) {
        residual_out[found.indices[j]] = found.values[j];
      }
    }
    logs.Undo();
    found_.clear();
  };
  if (!ForEachShare(update, tasks, parallel, partition)) {
    undo();
    return RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
  }
  try {
    if (update.log != nullptr && before_writing) before_writing(count());
  } catch (...) {
    undo();
    throw;
  }
  return {};
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

}  // namespace fedplug
