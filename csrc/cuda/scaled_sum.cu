// Queues the steps of scaled_sum_steps.h, a block for each tile.
#include <cuda_runtime.h>

#include <string>

#include "cuda/device_block.cuh"
#include "cuda/launch.cuh"
#include "cuda/scaled_sum.h"
#include "cuda/scaled_sum_steps.h"

namespace fedplug::cuda {
namespace {

static_assert(kCountedTile == topk::kTile);

template <typename Step>
__global__ void __launch_bounds__(topk::kThreads) TileKernel(const Step step) {
  __shared__ typename Step::Shared shared;
  step(DeviceBlock{}, blockIdx.x, shared);
}

template <typename Step>
Status QueueTiles(std::int64_t n, const Step& step, LaunchQueue* queue) {
  if (n < 0 || n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "n = " + std::to_string(n) + " is not in [0, 2^31)"};
  }
  queue->Launch(TileKernel<Step>, static_cast<unsigned>(topk::TilesOf(n)),
                topk::kThreads, step);
  return queue->status("scaled_sum");
}

}  // namespace

template <typename T>
Status QueueScaledSum(const ScaledSum<T>& call, T threshold,
                      std::uint32_t* counts, NonFiniteCount* non_finite,
                      cudaStream_t stream) {
  LaunchQueue queue(stream);
  if (non_finite != nullptr) queue.Zero(non_finite, sizeof(*non_finite));
  return QueueTiles(call.n, AddScaled<T>{call, {threshold}, counts, non_finite},
                    &queue);
}

template <typename T>
Status QueueTakeAbove(T* sum, std::int64_t n, T threshold,
                      const std::uint32_t* before, T* values,
                      std::int32_t* indices, cudaStream_t stream) {
  LaunchQueue queue(stream);
  return QueueTiles(
      n, TakeAbove<T>{sum, n, {threshold}, before, values, indices}, &queue);
}

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template Status QueueScaledSum<T>(const ScaledSum<T>&, T, std::uint32_t*,    \
                                    NonFiniteCount*, cudaStream_t);            \
  template Status QueueTakeAbove<T>(T*, std::int64_t, T, const std::uint32_t*, \
                                    T*, std::int32_t*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
