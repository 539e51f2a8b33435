// Queues the step of chunked_topk_steps.h, a block for each chunk.
#include <cuda_runtime.h>

#include "core/chunked_topk_residual.h"
#include "cuda/chunked_topk_residual.h"
#include "cuda/chunked_topk_steps.h"
#include "cuda/device_block.cuh"
#include "cuda/launch.cuh"

namespace fedplug::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(topk::kThreads)
    ChunkKernel(const SelectFromChunk<T> step) {
  __shared__ typename SelectFromChunk<T>::Shared shared;
  step(DeviceBlock{}, blockIdx.x, shared);
}

}  // namespace

template <typename T>
Status QueueChunkedTopK(const ScaledSum<T>& call, std::int64_t k,
                        std::int64_t chunk, T* values, std::int32_t* indices,
                        NonFiniteCount* non_finite, cudaStream_t stream) {
  if (Status status = CheckChunks(call.n, k, chunk); !status.ok()) {
    return status;
  }
  LaunchQueue queue(stream);
  queue.Zero(non_finite, sizeof(*non_finite));
  if (call.n > 0) {
    queue.Launch(
        ChunkKernel<T>, static_cast<unsigned>((call.n + chunk - 1) / chunk),
        topk::kThreads,
        SelectFromChunk<T>{call, k, chunk, values, indices, non_finite});
  }
  return queue.status("chunked_topk_residual");
}

#define FEDPLUG_INSTANTIATE(T)                                           \
  template Status QueueChunkedTopK<T>(const ScaledSum<T>&, std::int64_t, \
                                      std::int64_t, T*, std::int32_t*,   \
                                      NonFiniteCount*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
