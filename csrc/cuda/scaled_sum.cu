// Queues the step of scaled_sum_steps.h, a block for each tile.
#include <cuda_runtime.h>

#include <string>

#include "cuda/device_block.cuh"
#include "cuda/launch.cuh"
#include "cuda/scaled_sum.h"
#include "cuda/scaled_sum_steps.h"

namespace fedplug::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(topk::kThreads)
    AddScaledKernel(const AddScaled<T> step) {
  __shared__ typename AddScaled<T>::Shared shared;
  step(DeviceBlock{}, blockIdx.x, shared);
}

}  // namespace

template <typename T>
Status QueueScaledSum(const ScaledSum<T>& call, NonFiniteCount* non_finite,
                      cudaStream_t stream) {
  const std::int64_t n = call.n;
  if (n < 0 || n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "n = " + std::to_string(n) + " is not in [0, 2^31)"};
  }
  LaunchQueue queue(stream);
  if (non_finite != nullptr) queue.Zero(non_finite, sizeof(*non_finite));
  queue.Launch(AddScaledKernel<T>, static_cast<unsigned>(topk::TilesOf(n)),
               topk::kThreads, AddScaled<T>{call, non_finite});
  return queue.status("scaled_sum");
}

template Status QueueScaledSum<float>(const ScaledSum<float>&, NonFiniteCount*,
                                      cudaStream_t);
template Status QueueScaledSum<double>(const ScaledSum<double>&,
                                       NonFiniteCount*, cudaStream_t);

}  // namespace fedplug::cuda
