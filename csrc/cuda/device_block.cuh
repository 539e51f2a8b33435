// The block of threads of a kernel, as block.h describes it.
#ifndef FEDPLUG_CUDA_DEVICE_BLOCK_CUH_
#define FEDPLUG_CUDA_DEVICE_BLOCK_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/block.h"

namespace fedplug::cuda {

struct DeviceWarp {
  // REQUIRES: all lanes of the warp call it
  template <typename Get, typename Set>
  __host__ __device__ std::uint32_t ExclusiveSums(const Get& get,
                                                  const Set& set) const {
#ifdef __CUDA_ARCH__
    constexpr unsigned kAllLanes = 0xffffffffu;
    const unsigned lane = threadIdx.x % kWarp;
    const std::uint32_t here = get(static_cast<int>(lane));
    std::uint32_t sum = here;
    for (unsigned distance = 1; distance < kWarp; distance *= 2) {
      const std::uint32_t below = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane >= distance) sum += below;
    }
    set(static_cast<int>(lane), sum - here);
    return __shfl_sync(kAllLanes, sum, kWarp - 1);
#else
    static_cast<void>(get);  // nvcc wants a host version; nothing calls it
    static_cast<void>(set);
    return 0;
#endif
  }

  template <typename Body>
  __host__ __device__ void Once(const Body& body) const {
#ifdef __CUDA_ARCH__
    if (threadIdx.x % kWarp == 0) body();
#else
    static_cast<void>(body);
#endif
  }
};

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

  // REQUIRES: all threads of the block, whole warps, call it
  template <typename Body>
  __host__ __device__ void EachWarp(const Body& body) const {
#ifdef __CUDA_ARCH__
    body(DeviceWarp{}, static_cast<int>(threadIdx.x / kWarp));
    __syncthreads();
#else
    static_cast<void>(body);
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
