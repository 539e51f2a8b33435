// The device code of scaled_sum.h, for the block that takes one tile.
#ifndef FEDPLUG_CUDA_SCALED_SUM_STEPS_H_
#define FEDPLUG_CUDA_SCALED_SUM_STEPS_H_

#include <cstdint>

#include "core/base/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/scaled_sum.h"
#include "cuda/topk/sums.h"

namespace fedplug::cuda {

// A thread's sums of the tile, as LoadItems of topk/sums.h has them.
template <typename T>
FEDPLUG_HOST_DEVICE void LoadScaledSums(const ScaledSum<T>& call,
                                        std::int64_t begin, int left,
                                        T (&sums)[topk::kItems]) {
  T scaled[topk::kItems] = {};
  if (call.residual != nullptr) {
    topk::LoadItems(call.residual, begin, left, scaled);
    for (T& each : scaled) each = call.factor * each;
  }
  if (call.delta != nullptr) topk::LoadItems(call.delta, begin, left, sums);
  for (int item = 0; item < topk::kItems; ++item) {
    sums[item] =
        call.delta == nullptr ? scaled[item] : sums[item] + scaled[item];
  }
}

// Adds what a block found to the array's count.
template <typename Block>
FEDPLUG_HOST_DEVICE void Publish(const Block& block,
                                 const topk::NonFiniteCounts& found,
                                 NonFiniteCount* sum) {
  block.Each([&](int thread) {
    if (thread != 0 || found.count == 0 || sum == nullptr) return;
    AtomicAdd(&sum->count, found.count);
    AtomicMax(&sum->first_from_end, found.first_from_end);
  });
}

template <typename T>
struct IsAbove {
  T threshold;

  FEDPLUG_HOST_DEVICE bool operator()(T a) const {
    return (a >= threshold || -a >= threshold) && a != T{};
  }
};

template <typename T>
struct AddScaled {
  ScaledSum<T> call;
  IsAbove<T> is_above;
  std::uint32_t* counts;
  NonFiniteCount* non_finite;

  struct Shared {
    topk::NonFiniteCounts non_finite;
    std::uint32_t above;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t number,
                                      Shared& shared) const {
    const topk::Tile tile = topk::Tile::At(number, call.n);
    shared.non_finite.Clear(block);
    block.Each([&](int thread) {
      if (thread == 0) shared.above = 0;
    });
    block.Each([&](int thread) {
      const int left = tile.size - thread;
      const std::int64_t begin = tile.begin + thread;
      T sums[topk::kItems];
      LoadScaledSums(call, begin, left, sums);
      topk::NonFiniteItems items;
      std::uint32_t above = 0;
      topk::ForItems(left, [&](int item) {
        const T a = sums[item];
        items.Drop(a, item);
        if (is_above(a)) ++above;
        if (call.sum != nullptr) call.sum[begin + item * topk::kThreads] = a;
      });
      shared.non_finite.Add(items, begin, call.n);
      if (counts != nullptr && above > 0) AtomicAdd(&shared.above, above);
    });
    Publish(block, shared.non_finite, non_finite);
    if (counts == nullptr) return;
    block.Each([&](int thread) {
      if (thread == 0) counts[number] = shared.above;
    });
  }
};

template <typename T>
struct TakeAbove {
  T* sum;
  std::int64_t n;
  IsAbove<T> is_above;
  const std::uint32_t* before;
  T* values;
  std::int32_t* indices;

  using Shared = RankedBits<topk::kTile>;

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t number,
                                      Shared& taken) const {
    const topk::Tile tile = topk::Tile::At(number, n);
    block.Each([&](int thread) {
      T sums[topk::kItems];
      topk::LoadItems(sum, tile.begin + thread, tile.size - thread, sums);
      for (int item = 0; item < topk::kItems; ++item) {
        taken.Mark(thread,
                   static_cast<unsigned>(item * topk::kThreads + thread),
                   is_above(sums[item]));  // zeros, outside the tile, are not
      }
    });
    taken.Run(block, topk::kThreads, topk::kTile);
    block.Each([&](int thread) {
      for (int place = thread; place < tile.size; place += topk::kThreads) {
        const auto bit = static_cast<unsigned>(place);
        if (!taken.Has(bit)) continue;
        const std::int64_t index = tile.begin + place;
        const std::uint32_t rank = before[number] + taken.Before(bit);
        values[rank] = sum[index];
        indices[rank] = static_cast<std::int32_t>(index);
        sum[index] = T{};
      }
    });
  }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_SCALED_SUM_STEPS_H_
