// Top-k within chunks, one chunk after the other, each while it is in the
// cache. A chunk's k-th largest key is seldom far from that of the chunk
// before: a partition (blocks.h) adds, writes the sums and lists what is not
// far below that guess, some k entries among which the exact rank is found.
// Where the guess was too high, the sums are walked again, in the cache. No
// result depends on a guess. Must not know of threads.
#ifndef FEDPLUG_CORE_TOPK_CHUNK_SELECTION_H_
#define FEDPLUG_CORE_TOPK_CHUNK_SELECTION_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/float_bits.h"
#include "core/base/tiles.h"
#include "core/topk/blocks.h"
#include "core/topk/decay.h"
#include "core/topk/rank.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// What all chunks of an update have in common: a = delta + decay * residual_in,
// of which k entries leave every `chunk` elements.
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

// How many sums of a range are not finite.
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

// What one thread needs to select from a chunk.
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

  // False where a sum is not finite.
  // SHAPE: values[min(k, length of chunk)], and so indices
  bool Select(const Range& chunk, T* values, std::int32_t* indices) {
    chunk_ = chunk;
    sums_ = update_.residual_out + chunk.begin;
    const std::int64_t length = chunk.end - chunk.begin;
    const std::int64_t k = std::min(update_.k, length);
    Bits lo = k == length ? Bits{0} : guess_;
    const Bits largest = ListSums(lo);
    if (largest >= kInfinity) return false;
    if (list_.count < k && lo > 1) ListAgain(lo = 1);
    if (list_.count < k) {
      guess_ = 1;
      TakeWithZeros(k, values, indices);
    } else if (k > 0) {
      const auto hi = static_cast<Bits>(largest + 1);
      const auto [key, above] =
          FindRank(list_.range_keys, list_.count, k, lo, hi);
      guess_ = static_cast<Bits>(std::max<Bits>(key, kMargin + 1) - kMargin);
      TakeFromList(key, k, k - above, values, indices);
    }
    for (std::int64_t j = 0; j < k; ++j) sums_[indices[j] - chunk.begin] = T{};
    return true;
  }

 private:
  // How far below the last chunk's threshold entries are listed: an eighth of a
  // binade, 6 to 12 %. For a chunk of 4,096 normal numbers and k = 64 that is
  // about four standard deviations of the threshold, and 60 % more entries.
  static constexpr auto kMargin =
      static_cast<Bits>((kInfinity & (~kInfinity + 1)) >> 3);

  // From this density on, most vectors have an entry.
  static constexpr std::int64_t kDense = 20;

  // Writes the sums and lists those at lo and above. Returns the largest key.
  Bits ListSums(Bits lo) {
    list_.count = list_.in_range = 0;
    auto* const partition = update_.k * kDense > update_.chunk
                                ? update_.kernels.partition_dense
                                : update_.kernels.partition_sparse;
    Bits largest = 0;
    DecayedBlock<T> block;
    ForEachBlock(chunk_, [&](std::int64_t at, std::int64_t count) {
      largest = std::max(
          largest,
          partition(update_.delta + at, update_.Decayed(at, count, &block),
                    sums_ + (at - chunk_.begin), count,
                    static_cast<std::int32_t>(at), {lo, kInfinity}, &list_));
    });
    return largest;
  }

  // Lists what is at lo and above of the sums.
  void ListAgain(Bits lo) {
    list_.count = list_.in_range = 0;
    ForEachBlock(chunk_, [&](std::int64_t at, std::int64_t count) {
      T* const sums = sums_ + (at - chunk_.begin);
      update_.kernels.partition_dense(MinusZeros<T>(), sums, sums, count,
                                      static_cast<std::int32_t>(at),
                                      {lo, kInfinity}, &list_);
    });
  }

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

  // All entries that are not zero, which are the list, and the first zeros.
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
  Bits guess_ = kInfinity;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_CHUNK_SELECTION_H_
