// Top-k within chunks in the cache: the sums, a bound, a list of the entries
// not below it, and the exact rank among these. The bound is the k-th largest
// of the maxima of groups: k groups have a number that large, so the k-th
// largest of all is not smaller. With four groups per entry the list has about
// k / 7 entries too many, wherever the largest ones lie.
#ifndef FEDPLUG_CORE_TOPK_CHUNK_SELECTION_H_
#define FEDPLUG_CORE_TOPK_CHUNK_SELECTION_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/topk/blocks.h"
#include "core/topk/chunk_loops.h"
#include "core/topk/rank.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// An update: a = delta + decay * residual_in, from which k entries of every
// `chunk` elements are selected.
// REQUIRES: chunk <= n
template <typename T>
struct ChunkedUpdate {
  const T* delta;
  const T* residual_in;  // or null
  T* residual_out;
  std::int64_t n;
  std::int64_t k;
  std::int64_t chunk;
  Decay<T> decay;
  BlockKernels<T> kernels;
  GroupMaxima<T>* group_maxima;

  // decay * residual_in of a block.
  const T* Decayed(std::int64_t at, std::int64_t count,
                   DecayedBlock<T>* block) const {
    return decay.Of(residual_in == nullptr ? nullptr : residual_in + at, count,
                    block);
  }
};

// Calls body(begin, count) for the blocks of a range.
template <typename Body>
void ForEachBlock(const Range& range, const Body& body) {
  for (std::int64_t at = range.begin; at < range.end; at += kBlock) {
    body(at, std::min(kBlock, range.end - at));
  }
}

// The number of sums of a range that are not finite.
template <typename T>
std::int64_t CountNonFiniteIn(const ChunkedUpdate<T>& update,
                              const Range& range) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  std::array<FloatBitsOf<T>, kSlack> no_keys;
  CountCursor<T> cursor{no_keys.data()};
  DecayedBlock<T> block;
  ForEachBlock(range, [&](std::int64_t at, std::int64_t count) {
    update.kernels.count_pass(update.delta + at,
                              update.Decayed(at, count, &block), count,
                              {kInfinity, kInfinity}, &cursor);
  });
  return cursor.above;
}

// The memory of one thread to select from a chunk.
// SHAPE: values, indices, keys [chunk + kSlack]
template <typename T>
struct ChunkScratch {
  T* values;
  std::int32_t* indices;
  FloatBitsOf<T>* keys;
};

template <typename T>
class ChunkSelection {
  using Bits = FloatBitsOf<T>;
  static constexpr Bits kInfinity = FloatTraits<T>::kInfinity;

 public:
  ChunkSelection(const ChunkedUpdate<T>& update, const ChunkScratch<T>& scratch)
      : update_(update), list_{scratch.values, scratch.indices, scratch.keys} {}

  // False if a sum is not finite.
  // SHAPE: values[min(k, length of chunk)], and so indices
  bool Select(const Range& chunk, T* values, std::int32_t* indices) {
    chunk_ = chunk;
    sums_ = update_.residual_out + chunk.begin;
    const std::int64_t k = std::min(update_.k, length());
    const Bits largest = Add();
    if (largest >= kInfinity) return false;
    if (k == 0) return true;
    const auto hi = static_cast<Bits>(largest + 1);
    const Bits lo = BoundBelow(k, hi);
    ListFrom(lo);
    if (list_.count < k) {
      TakeWithZeros(k, values, indices);
    } else {
      const auto [key, above] =
          FindRank(list_.range_keys, list_.count, k, lo, hi);
      TakeFromList(key, k, k - above, values, indices);
    }
    for (std::int64_t j = 0; j < k; ++j) sums_[indices[j] - chunk.begin] = T{};
    return true;
  }

 private:
  // Groups of this size are as good as smaller ones, and there are fewer.
  static constexpr std::int64_t kMostRows = 16;
  static constexpr std::int64_t kGroupsPerEntry = 4;

  std::int64_t length() const { return chunk_.end - chunk_.begin; }

  // Writes the sums. Returns the largest key.
  Bits Add() {
    Bits largest = 0;
    DecayedBlock<T> block;
    list_.count = list_.in_range = 0;
    ForEachBlock(chunk_, [&](std::int64_t at, std::int64_t count) {
      largest = std::max(
          largest, update_.kernels.partition_sparse(
                       update_.delta + at, update_.Decayed(at, count, &block),
                       sums_ + (at - chunk_.begin), count, 0,
                       {kInfinity, kInfinity}, &list_));
    });
    return largest;
  }

  // A key not above the k-th largest, unless that is 0: at least 1. REQUIRES:
  // all keys are below hi
  Bits BoundBelow(std::int64_t k, Bits hi) const {
    std::int64_t rows = kMostRows;
    while (rows > 1 && length() < kGroupsPerEntry * k * rows) rows /= 2;
    Bits* const maxima = list_.range_keys;
    const std::int64_t groups =
        rows == 1 ? 0 : update_.group_maxima(sums_, length(), rows, maxima);
    if (groups < k) return 1;
    const Bits lowest = *std::min_element(maxima, maxima + groups);
    return std::max<Bits>(FindRank(maxima, groups, k, lowest, hi).key, 1);
  }

  // Lists the sums at lo and above.
  void ListFrom(Bits lo) {
    list_.count = list_.in_range = 0;
    auto* const partition = update_.k * kDense > update_.chunk
                                ? update_.kernels.partition_dense
                                : update_.kernels.partition_sparse;
    ForEachBlock(chunk_, [&](std::int64_t at, std::int64_t count) {
      T* const sums = sums_ + (at - chunk_.begin);
      partition(MinusZeros<T>(), sums, sums, count,
                static_cast<std::int32_t>(at), {lo, kInfinity}, &list_);
    });
  }

  // At this density and above, most vectors have an entry.
  static constexpr std::int64_t kDense = 20;

  // The k entries above `key` and, of those that are equal to it, the first
  // `ties`.
  void TakeFromList(Bits key, std::int64_t k, std::int64_t ties, T* values,
                    std::int32_t* indices) const {
    std::int64_t taken = 0;
    for (std::int64_t j = 0; taken < k; ++j) {
      const Bits found = MagnitudeKey(list_.values[j]);
      const bool tie = found == key;
      values[taken] = list_.values[j];
      indices[taken] = list_.indices[j];
      taken += found > key || (tie && ties > 0);
      ties -= tie;
    }
  }

  // All entries that are not zero, which are listed, and the first zeros.
  void TakeWithZeros(std::int64_t k, T* values, std::int32_t* indices) const {
    std::int64_t zeros = k - list_.count;
    std::int64_t taken = 0;
    for (std::int64_t i = 0; taken < k; ++i) {
      const bool zero = MagnitudeKey(sums_[i]) == 0;
      values[taken] = sums_[i];
      indices[taken] = static_cast<std::int32_t>(chunk_.begin + i);
      taken += !zero || zeros > 0;
      zeros -= zero;
    }
  }

  const ChunkedUpdate<T>& update_;
  PartitionCursor<T> list_;
  Range chunk_{};
  T* sums_ = nullptr;  // of the chunk, from its first element on
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_CHUNK_SELECTION_H_
