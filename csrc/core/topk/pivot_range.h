// The pivot range: keys between which the k-th largest lies, probably (from a
// sample) or certainly (from all keys). The counts of the next pass verify it.
// (Floyd and Rivest, "Expected time bounds for selection", CACM 18(3), 1975.)
#ifndef FEDPLUG_CORE_TOPK_PIVOT_RANGE_H_
#define FEDPLUG_CORE_TOPK_PIVOT_RANGE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/topk/rank.h"
#include "core/topk/sample.h"
#include "core/topk/shortlist.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// Up to this size all keys are read: a sample would cost nearly as much.
inline constexpr std::int64_t kSampleNothing = 1024;

// Every key sampled costs about as much as a key in the range, which is
// about n * sqrt(p * (1 - p) / keys) wide, with p = k / n: this balances them.
inline std::int64_t SampleLines(std::int64_t n, std::int64_t k) {
  const double p = static_cast<double>(k) / static_cast<double>(n);
  const double spread = static_cast<double>(n) * std::sqrt(p * (1 - p));
  const double lines = 0.2 * std::cbrt(spread * spread);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(lines), 16, 16384);
}

// One line at a random place of each of equally long strata.
//
// SHAPE: keys[lines * kLine], returns how many were written
template <typename T>
std::int64_t SampleKeys(const std::vector<Update<T>>& updates,
                        const std::vector<Chunk>& chunks, std::int64_t n,
                        std::int64_t lines, const BlockKernels<T>& kernels,
                        FloatBitsOf<T>* keys) {
  struct Line {
    const Update<T>* update;
    std::int64_t begin;
  };
  std::vector<Line> places;
  places.reserve(static_cast<std::size_t>(lines));
  std::size_t c = 0;
  std::int64_t chunk_begin = 0;  // of chunk c, in the row of all elements
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t place = PlaceOfLine(line, lines, n);
    while (place >= chunk_begin + chunks[c].end - chunks[c].begin) {
      chunk_begin += chunks[c].end - chunks[c].begin;
      ++c;
    }
    const Update<T>& update = updates[chunks[c].tensor];
    const std::int64_t in_tensor = chunks[c].begin + place - chunk_begin;
    const std::int64_t begin = in_tensor - PastLine(update, in_tensor) % kLine;
    places.push_back({&update, std::max<std::int64_t>(0, begin)});
  }

  constexpr std::size_t kAhead = 12;  // lines on their way from memory
  std::int64_t count = 0;
  for (std::size_t line = 0; line < places.size(); ++line) {
    if (line + kAhead < places.size()) {
      const Line& next = places[line + kAhead];
      __builtin_prefetch(next.update->delta.From(next.begin));
      __builtin_prefetch(next.update->residual_in + next.begin);
    }
    const Update<T>& update = *places[line].update;
    const std::int64_t begin = places[line].begin;
    const std::int64_t length = std::min(kLine, update.n - begin);
    kernels.sum_keys(update.delta.From(begin), update.residual_in + begin,
                     length, keys + count);
    count += length;
  }
  return count;
}

// The range around rank k of n keys, of which `keys` is a sample.
//
// REQUIRES: 0 < k < n
// SHAPE:    keys[count], whose contents are lost; room[count + kSlack]
template <typename T>
PivotRange<T> PivotRangeFromSample(FloatBitsOf<T>* keys, std::int64_t count,
                                   std::int64_t k, std::int64_t n,
                                   const BlockKernels<T>& kernels,
                                   FloatBitsOf<T>* room) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  const SampleRanks ranks = RanksInSample(count, k, n);

  const auto list = ShortlistRanks<T>(
      keys, count, std::max<std::int64_t>(ranks.upper, 1),
      std::min(ranks.lower, count), 0, kInfinity, kernels, room);
  const auto key_at = [&](std::int64_t rank_wanted) {
    std::copy_n(list.keys, list.count, keys);
    return FindRank(keys, list.count, rank_wanted - list.above, list.lo,
                    list.hi)
        .key;
  };
  PivotRange<T> range{0, kInfinity};
  if (ranks.upper >= 1) {
    range.hi = static_cast<FloatBitsOf<T>>(key_at(ranks.upper) + 1);
  }
  if (ranks.lower <= count) range.lo = key_at(ranks.lower);

  // A key shared by many elements (mostly zero) is not collected: the first few
  // suffice.
  const auto at_lo = std::count(list.keys, list.keys + list.count, range.lo);
  if (at_lo > count / 64) {
    range.edge = range.lo;
    range.lo = static_cast<FloatBitsOf<T>>(range.lo + 1);
  }
  return range;
}

// The leading bits of the k-th largest key, from a histogram of them all: a
// range that cannot miss, used after a misleading sample.
//
// REQUIRES: 0 < k
// COST:     reads everything once
template <typename T>
PivotRange<T> ExactPivotRange(const std::vector<Update<T>>& updates,
                              const std::vector<Chunk>& chunks, std::int64_t k,
                              const BlockKernels<T>& kernels,
                              Parallel& parallel) {
  using Bits = FloatBitsOf<T>;
  constexpr int kBinBits = 12;
  constexpr int kShift = kKeyBits<T> - kBinBits;
  constexpr std::int64_t kSmallestTile = 16;  // chunks
  using Histogram = std::array<std::int64_t, 1 << kBinBits>;
  const auto all = static_cast<std::int64_t>(chunks.size());
  const int tiles = TileCount(all, kSmallestTile, parallel);
  std::vector<Histogram> histograms(static_cast<std::size_t>(tiles),
                                    Histogram{});
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    Histogram& histogram = histograms[static_cast<std::size_t>(t)];
    const Range mine = TileOf(all, tiles, t);
    for (std::int64_t c = mine.begin; c < mine.end; ++c) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(c)];
      ForEachBlockOfKeys(
          updates[chunk.tensor], chunk, kernels,
          [&](std::int64_t /*begin*/, std::int64_t count, const Bits* keys) {
            for (std::int64_t i = 0; i < count; ++i) {
              ++histogram[static_cast<std::size_t>(keys[i] >> kShift)];
            }
          });
    }
  });
  std::int64_t above = 0;
  std::size_t bin = Histogram{}.size();
  while (above < k) {
    --bin;
    for (const Histogram& histogram : histograms) above += histogram[bin];
  }
  return {static_cast<Bits>(bin << kShift),
          static_cast<Bits>((bin + 1) << kShift)};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_PIVOT_RANGE_H_
