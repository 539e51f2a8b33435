// The device code of scaled_sum.h, for the block that takes one tile.
#ifndef FEDPLUG_CUDA_SCALED_SUM_STEPS_H_
#define FEDPLUG_CUDA_SCALED_SUM_STEPS_H_

#include <cstdint>

#include "core/base/floats.h"
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

// Adds the count of a block to the array's.
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
struct AddScaled {
  ScaledSum<T> call;
  NonFiniteCount* non_finite;

  using Shared = topk::NonFiniteCounts;

  std::int64_t Tiles() const { return topk::TilesOf(call.n); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t number,
                                      Shared& shared) const {
    const topk::Tile tile = topk::Tile::At(number, call.n);
    shared.Clear(block);
    block.Each([&](int thread) {
      const int left = tile.size - thread;
      const std::int64_t begin = tile.begin + thread;
      T sums[topk::kItems];
      LoadScaledSums(call, begin, left, sums);
      topk::NonFiniteItems items;
      topk::ForItems(left, [&](int item) {
        const T a = sums[item];
        items.Drop(a, item);
        if (call.sum != nullptr) call.sum[begin + item * topk::kThreads] = a;
      });
      shared.Add(items, begin, call.n);
    });
    Publish(block, shared, non_finite);
  }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_SCALED_SUM_STEPS_H_
