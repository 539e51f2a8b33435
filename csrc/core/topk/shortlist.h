// Finds the few keys that contain some ranks: a guess from every eighth key,
// verified by a vector walk over all keys.
#ifndef FEDPLUG_CORE_TOPK_SHORTLIST_H_
#define FEDPLUG_CORE_TOPK_SHORTLIST_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/topk/rank.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// All keys that are in [lo, hi).
template <typename Bits>
struct Shortlist {
  Bits* keys;
  std::int64_t count;
  Bits lo;
  Bits hi;
  std::int64_t above;  // how many keys are at hi and above
};

// A guess at a part of [lo, hi) that holds the ranks first to last: whole bins
// of a histogram of some keys, with 3.5 standard deviations to spare.
template <typename T>
PivotRange<T> GuessPivotRange(const FloatBitsOf<T>* keys, std::int64_t count,
                              std::int64_t first, std::int64_t last,
                              FloatBitsOf<T> lo, FloatBitsOf<T> hi) {
  using Bits = FloatBitsOf<T>;
  constexpr std::int64_t kStride = 8;
  constexpr int kDigitBits = 11;
  const int shift =
      std::max(0, BitWidth(static_cast<Bits>(hi - lo - 1)) - kDigitBits);
  std::array<std::int32_t, 1 << kDigitBits> histogram{};
  std::size_t bin = 0;
  for (std::int64_t i = 0; i < count; i += kStride) {
    const auto digit =
        static_cast<std::size_t>(static_cast<Bits>(keys[i] - lo) >> shift);
    ++histogram[digit];
    bin = std::max(bin, digit);
  }
  // The approximate number of sampled keys as large as the one at a rank.
  const auto seen_at = [count](std::int64_t rank, double deviations) {
    const double share = static_cast<double>(rank) / static_cast<double>(count);
    const double expected = static_cast<double>(rank) / kStride;
    return static_cast<std::int64_t>(
        expected + deviations * std::sqrt(expected * (1 - share)));
  };
  const std::int64_t too_few = seen_at(first, -3.5) - 1;
  const std::int64_t enough = seen_at(last, 3.5) + 1;
  PivotRange<T> range{lo, hi};
  std::int64_t seen = 0;
  for (; bin > 0 && seen + histogram[bin] <= too_few; --bin) {
    seen += histogram[bin];
    range.hi = static_cast<Bits>(lo + (static_cast<Bits>(bin) << shift));
  }
  for (; bin > 0 && seen + histogram[bin] < enough; --bin) {
    seen += histogram[bin];
  }
  range.lo = static_cast<Bits>(lo + (static_cast<Bits>(bin) << shift));
  return range;
}

// Calls body(magnitudes, count) for blocks of the keys: the numbers whose bits
// they are.
template <typename T, typename Body>
void ForEachBlockOfMagnitudes(const FloatBitsOf<T>* keys, std::int64_t count,
                              const Body& body) {
  std::array<T, kBlock> magnitudes;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t length = std::min(kBlock, count - at);
    std::memcpy(magnitudes.data(), keys + at,
                static_cast<std::size_t>(length) * sizeof(T));
    body(magnitudes.data(), length);
  }
}

template <typename T>
FloatBitsOf<T> LargestKey(const FloatBitsOf<T>* keys, std::int64_t count,
                          const BlockKernels<T>& kernels) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  std::array<FloatBitsOf<T>, kSlack> no_keys;
  CountCursor<T> cursor{no_keys.data()};
  FloatBitsOf<T> largest = 0;
  ForEachBlockOfMagnitudes<T>(
      keys, count, [&](const T* magnitudes, std::int64_t length) {
        largest = std::max(
            largest, kernels.count_pass(magnitudes, MinusZeros<T>(), length,
                                        {kInfinity, kInfinity}, &cursor));
      });
  return largest;
}

// Finds the keys that the ranks first to last, counted from 1, are among.
//
// REQUIRES: 1 <= first <= last <= count; all keys are in [lo, hi), and finite
// SHAPE:    keys[count], room[count + kSlack], where the shortlist is put
// COST:     one read of all keys, two where hi is infinity. A wrong guess costs
//           a copy of them
template <typename T>
Shortlist<FloatBitsOf<T>> ShortlistRanks(const FloatBitsOf<T>* keys,
                                         std::int64_t count, std::int64_t first,
                                         std::int64_t last, FloatBitsOf<T> lo,
                                         FloatBitsOf<T> hi,
                                         const BlockKernels<T>& kernels,
                                         FloatBitsOf<T>* room) {
  constexpr std::int64_t kFew = 1024;  // below this a guess costs more
  // Bins cover only the keys: most of an open range is beyond them all.
  if (hi == FloatTraits<T>::kInfinity) {
    hi = static_cast<FloatBitsOf<T>>(LargestKey(keys, count, kernels) + 1);
  }
  if (count > kFew) {
    const PivotRange<T> range =
        GuessPivotRange<T>(keys, count, first, last, lo, hi);
    CountCursor<T> cursor{room};
    ForEachBlockOfMagnitudes<T>(
        keys, count, [&](const T* magnitudes, std::int64_t length) {
          kernels.count_pass(magnitudes, MinusZeros<T>(), length, range,
                             &cursor);
        });
    if (cursor.above < first && last <= cursor.above + cursor.in_range) {
      return {room, cursor.in_range, range.lo, range.hi, cursor.above};
    }
  }
  std::copy_n(keys, count, room);
  return {room, count, lo, hi, 0};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SHORTLIST_H_
