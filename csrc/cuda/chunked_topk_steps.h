// The device code of chunked_topk_residual.h, for the block that takes one
// chunk: adds, finds the k-th largest digit by digit, and takes out the chosen.
#ifndef FEDPLUG_CUDA_CHUNKED_TOPK_STEPS_H_
#define FEDPLUG_CUDA_CHUNKED_TOPK_STEPS_H_

#include <cstdint>

#include "core/base/floats.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/scaled_sum_steps.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"
#include "cuda/topk/sums.h"

namespace fedplug::cuda {

template <typename T>
struct SelectFromChunk {
  ScaledSum<T> call;
  std::int64_t k;
  std::int64_t chunk;
  T* values;
  std::int32_t* indices;
  NonFiniteCount* non_finite;

  struct Shared {
    topk::BinsFromTheTop bins;
    topk::NonFiniteCounts non_finite;
    topk::Threshold threshold;
    RankedBits<topk::kTile> above;
    RankedBits<topk::kTile> ties;
  };

  // One for each chunk.
  std::int64_t Tiles() const { return (call.n + chunk - 1) / chunk; }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t number,
                                      Shared& shared) const {
    const std::int64_t begin = number * chunk;
    const std::int64_t end = begin + chunk < call.n ? begin + chunk : call.n;
    const std::int64_t wanted = k < end - begin ? k : end - begin;
    Add(block, begin, end, shared);
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.threshold = {wanted > 0 ? 0 : topk::kAboveAll,
                          static_cast<std::uint32_t>(wanted)};
    });
    if (wanted == 0) return;
    FindDigit(block, 0, shared);
    for (int round = 1; round < topk::kRounds<T>; ++round) {
      Count(block, begin, end, round, shared);
      FindDigit(block, round, shared);
    }
    Take(block, begin, end, number * (k < chunk ? k : chunk), shared);
  }

 private:
  // body(tile of the chunk) for each, in order
  template <typename Body>
  FEDPLUG_HOST_DEVICE static void ForTiles(std::int64_t begin, std::int64_t end,
                                           const Body& body) {
    for (std::int64_t at = begin; at < end; at += topk::kTile) {
      const std::int64_t left = end - at;
      body(topk::Tile{
          0, at, static_cast<int>(left < topk::kTile ? left : topk::kTile)});
    }
  }

  // Writes the sums and counts their first digits.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Add(const Block& block, std::int64_t begin,
                               std::int64_t end, Shared& shared) const {
    topk::ClearHistogram(block, shared.bins.counts);
    shared.non_finite.Clear(block);
    ForTiles(begin, end, [&](const topk::Tile& tile) {
      block.Each([&](int thread) {
        const int left = tile.size - thread;
        const std::int64_t first = tile.begin + thread;
        T sums[topk::kItems];
        LoadScaledSums(call, first, left, sums);
        topk::NonFiniteItems items;
        topk::ForItems(left, [&](int item) {
          const T a = items.Drop(sums[item], item);
          call.sum[first + item * topk::kThreads] = a;
          topk::CountOne(&shared.bins.counts[topk::DigitOf(a, 0)]);
        });
        shared.non_finite.Add(items, first, call.n);
      });
    });
    Publish(block, shared.non_finite, non_finite);
  }

  // Counts the next digits of the sums that have the threshold's.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Count(const Block& block, std::int64_t begin,
                                 std::int64_t end, int round,
                                 Shared& shared) const {
    topk::ClearHistogram(block, shared.bins.counts);
    const topk::RoundDigits<T> digits = {
        topk::PrefixOfThreshold<T>(shared.threshold), round};
    ForTiles(begin, end, [&](const topk::Tile& tile) {
      block.Each([&](int thread) {
        for (int place = thread; place < tile.size; place += topk::kThreads) {
          const T a = call.sum[tile.begin + place];
          if (digits.Counts(a)) {
            topk::CountOne(&shared.bins.counts[digits.Of(a)]);
          }
        }
      });
    });
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void FindDigit(const Block& block, int round,
                                     Shared& shared) const {
    const topk::Threshold before = shared.threshold;
    block.Each([](int) {});  // all have read it
    shared.bins.ForEach(
        block, [&](int bin, std::uint32_t above, std::uint32_t here) {
          if (!topk::IsInBin(before.wanted, above, here)) return;
          shared.threshold = {(before.prefix << topk::BitsOfDigit<T>(round)) |
                                  static_cast<std::uint64_t>(bin),
                              before.wanted - above};
        });
  }

  // Takes out the sums above the k-th largest, and the first of those equal to
  // it. `rank` is that of the chunk's first entry.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Take(const Block& block, std::int64_t begin,
                                std::int64_t end, std::int64_t rank,
                                Shared& shared) const {
    const auto key = topk::PrefixOfThreshold<T>(shared.threshold);
    std::uint32_t ties_left = shared.threshold.wanted;
    RankedBits<topk::kTile>& above = shared.above;
    RankedBits<topk::kTile>& ties = shared.ties;
    ForTiles(begin, end, [&](const topk::Tile& tile) {
      block.Each([&](int thread) {
        T sums[topk::kItems];
        topk::LoadItems(call.sum, tile.begin + thread, tile.size - thread,
                        sums);
        for (int item = 0; item < topk::kItems; ++item) {
          const int place = item * topk::kThreads + thread;
          const auto bit = static_cast<unsigned>(place);
          const auto own = topk::PrefixOf(sums[item], topk::kRounds<T> - 1);
          const bool inside = place < tile.size;
          above.Mark(thread, bit, inside && own > key);
          ties.Mark(thread, bit, inside && own == key);
        }
      });
      above.Run(block, topk::kThreads, topk::kTile);
      ties.Run(block, topk::kThreads, topk::kTile);
      block.Each([&](int thread) {
        for (int place = thread; place < tile.size; place += topk::kThreads) {
          const auto bit = static_cast<unsigned>(place);
          const std::uint32_t ties_before = ties.Before(bit);
          const bool is_taken =
              above.Has(bit) || (ties.Has(bit) && ties_before < ties_left);
          if (!is_taken) continue;
          const std::int64_t index = tile.begin + place;
          const std::int64_t to =
              rank + above.Before(bit) +
              (ties_before < ties_left ? ties_before : ties_left);
          values[to] = call.sum[index];
          indices[to] = static_cast<std::int32_t>(index);
          call.sum[index] = T{};
        }
      });
      const std::uint32_t ties_here =
          ties.Total() < ties_left ? ties.Total() : ties_left;
      rank += above.Total() + ties_here;
      ties_left -= ties_here;
      block.Each([](int) {});  // all have read the totals
    });
  }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_CHUNKED_TOPK_STEPS_H_
