// How kernels are queued, one after the other, up to the first that the runtime
// refuses: the ones behind it would work on what it has not written.
#ifndef FEDPLUG_CUDA_LAUNCH_CUH_
#define FEDPLUG_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <utility>

#include "core/base/status.h"
#include "cuda/device_limits.h"
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
    const cudaLaunchConfig_t config = Config(blocks, threads);
    error_ = cudaLaunchKernelEx(&config, kernel,
                                std::forward<Arguments>(arguments)...);
  }

  // How many blocks of a kernel the device runs at the same time, each with
  // memory that they share of `shared_bytes`; 0 where they may not wait for
  // each other, or where the runtime refuses to say.
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

  bool refused() const { return error_ != cudaSuccess; }

  // Queues a kernel whose blocks all run at the same time, with memory that
  // they share each of `shared_bytes`. Says whether the device has room for
  // all of them together; if not, nothing was queued.
  //
  // REQUIRES: 0 < blocks; shared_bytes <= limits.shared_bytes
  template <typename... Parameters, typename... Arguments>
  bool LaunchTogether(const DeviceLimits& limits, std::size_t shared_bytes,
                      void (*kernel)(Parameters...), unsigned blocks,
                      int threads, Arguments&&... arguments) {
    if (error_ != cudaSuccess) return true;
    // The most there is, not what this call wants: another thread may set it
    // for a call of its own.
    error_ = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(limits.shared_bytes));
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

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_LAUNCH_CUH_
