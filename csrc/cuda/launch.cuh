// How kernels are queued, one after the other, up to the first that the runtime
// refuses: the ones behind it would work on what it has not written. Must not
// know any kernel.
#ifndef FEDPLUG_CUDA_LAUNCH_CUH_
#define FEDPLUG_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <utility>

#include "core/base/status.h"
#include "cuda/launch.h"

namespace fedplug::cuda {

class LaunchQueue {
 public:
  explicit LaunchQueue(cudaStream_t stream) : stream_(stream) {}

  // REQUIRES: blocks > 0
  template <typename... Parameters, typename... Arguments>
  void Launch(void (*kernel)(Parameters...), unsigned blocks, int threads,
              Arguments&&... arguments) {
    if (error_ != cudaSuccess) return;
    cudaLaunchConfig_t config = {};
    config.gridDim.x = blocks;
    config.blockDim.x = static_cast<unsigned>(threads);
    config.stream = stream_;
    error_ = cudaLaunchKernelEx(&config, kernel,
                                std::forward<Arguments>(arguments)...);
  }

  void Zero(void* memory, std::size_t bytes) {
    if (error_ != cudaSuccess || bytes == 0) return;
    error_ = cudaMemsetAsync(memory, 0, bytes, stream_);
  }

  // `operation` begins the message.
  Status status(const char* operation) const {
    return ToStatus(error_, operation);
  }

 private:
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_LAUNCH_CUH_
