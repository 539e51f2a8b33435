// The block of threads a kernel runs in, as the steps want it (block.h). Must
// not know any kernel.
#ifndef FEDPLUG_CUDA_DEVICE_BLOCK_CUH_
#define FEDPLUG_CUDA_DEVICE_BLOCK_CUH_

namespace fedplug::cuda {

struct DeviceBlock {
  // REQUIRES: all threads of the block call it
  template <typename Body>
  __host__ __device__ void Each(const Body& body) const {
#ifdef __CUDA_ARCH__
    body(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    static_cast<void>(body);  // nvcc wants a host version; nothing calls it
#endif
  }

  // REQUIRES: all threads of the block call it
  template <typename Decide>
  __host__ __device__ bool Agree(const Decide& decide) const {
#ifdef __CUDA_ARCH__
    return __syncthreads_or(threadIdx.x == 0 && decide()) != 0;
#else
    static_cast<void>(decide);
    return false;
#endif
  }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_DEVICE_BLOCK_CUH_
