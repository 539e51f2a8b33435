// Queues the step of scaled_sum_steps.h, a block for each tile.
#include <cuda_runtime.h>

#include "core/scatter_decode.h"
#include "cuda/launch.cuh"
#include "cuda/scaled_sum.h"
#include "cuda/scaled_sum_steps.h"

namespace fedplug::cuda {
template <typename T>
Status QueueScaledSum(const ScaledSum<T>& call, NonFiniteCount* non_finite,
                      cudaStream_t stream) {
  if (Status status = CheckDenseSize(call.n); !status.ok()) return status;
  LaunchQueue queue(stream);
  if (non_finite != nullptr) queue.Zero(non_finite, sizeof(*non_finite));
  QueueStep<topk::kThreads>(AddScaled<T>{call, non_finite}, &queue);
  return queue.status("scaled_sum");
}

template Status QueueScaledSum<float>(const ScaledSum<float>&, NonFiniteCount*,
                                      cudaStream_t);
template Status QueueScaledSum<double>(const ScaledSum<double>&,
                                       NonFiniteCount*, cudaStream_t);

}  // namespace fedplug::cuda
