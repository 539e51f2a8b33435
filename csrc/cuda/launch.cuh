// Queues kernels one after the other. After the first failed launch nothing
// else is queued, because later kernels would read unwritten data.
#ifndef FEDPLUG_CUDA_LAUNCH_CUH_
#define FEDPLUG_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <utility>

#include "core/base/status.h"
#include "cuda/device_block.cuh"
#include "cuda/runtime.h"

namespace fedplug::cuda {

class LaunchQueue {
 public:
  explicit LaunchQueue(cudaStream_t stream) : stream_(stream) {}

  // REQUIRES: blocks > 0
  template <typename... Parameters, typename... Arguments>
  void Launch(void (*kernel)(Parameters...), unsigned blocks, int threads,
              Arguments&&... arguments) {
    if (error_ != cudaSuccess) return;
    const cudaLaunchConfig_t config = Config(blocks, threads);
    error_ = cudaLaunchKernelEx(&config, kernel,
                                std::forward<Arguments>(arguments)...);
  }

  // The number of blocks of a kernel that the device runs at the same time with
  // `shared_bytes` of shared memory each. 0 if it has no cooperative launches
  // or the runtime refuses to answer.
  template <typename... Parameters>
  unsigned MostTogether(const DeviceLimits& limits, std::size_t shared_bytes,
                        void (*kernel)(Parameters...), int threads) {
    if (error_ != cudaSuccess || !limits.cooperative) return 0;
    int of_multiprocessor = 0;
    error_ = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &of_multiprocessor, reinterpret_cast<const void*>(kernel), threads,
        shared_bytes);
    return static_cast<unsigned>(of_multiprocessor * limits.multiprocessors);
  }

  // As if the runtime had refused the next launch.
  void Refuse(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  // Queues a kernel whose blocks all run at the same time with `shared_bytes`
  // of shared memory each. Returns false, and queues nothing, if the device has
  // no room for all of them.
  //
  // REQUIRES: 0 < blocks, shared_bytes <= 48 KiB
  template <typename... Parameters, typename... Arguments>
  bool LaunchTogether(std::size_t shared_bytes, void (*kernel)(Parameters...),
                      unsigned blocks, int threads, Arguments&&... arguments) {
    if (error_ != cudaSuccess) return true;
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = Config(blocks, threads);
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &together;
    config.numAttrs = 1;
    error_ = cudaLaunchKernelEx(&config, kernel,
                                std::forward<Arguments>(arguments)...);
    if (error_ != cudaErrorCooperativeLaunchTooLarge) return true;
    error_ = cudaSuccess;
    static_cast<void>(cudaGetLastError());
    return false;
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
  cudaLaunchConfig_t Config(unsigned blocks, int threads) const {
    cudaLaunchConfig_t config = {};
    config.gridDim.x = blocks;
    config.blockDim.x = static_cast<unsigned>(threads);
    config.stream = stream_;
    return config;
  }

  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

// Kernels of steps: a block of threads runs step(block, tile, shared).

inline constexpr int kStepThreads = 256;

template <int kThreads, typename Step>
__global__ void __launch_bounds__(kThreads)
    StepKernel(const __grid_constant__ Step step) {
  __shared__ typename Step::Shared shared;
  step(DeviceBlock{}, blockIdx.x, shared);
}

// Queues step.Tiles() blocks of threads.
template <int kThreads = kStepThreads, typename Step>
void QueueStep(const Step& step, LaunchQueue* queue) {
  const auto tiles = static_cast<unsigned>(step.Tiles());
  if (tiles > 0) {
    queue->Launch(StepKernel<kThreads, Step>, tiles, kThreads, step);
  }
}

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_LAUNCH_CUH_
