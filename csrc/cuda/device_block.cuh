// The block of threads of a kernel, as block.h describes it.
#ifndef FEDPLUG_CUDA_DEVICE_BLOCK_CUH_
#define FEDPLUG_CUDA_DEVICE_BLOCK_CUH_

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstddef>
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

// A grid whose blocks all run at the same time (a cooperative launch), and so
// may wait for each other, and the shared memory that a launch asks for.

// The shared memory of the launch.
alignas(16) extern __shared__ std::byte shared_of_launch[];

struct DeviceGrid {
  // A barrier of all threads of all blocks: afterwards all may read the writes
  // of any before it. It needs no initialised memory, because its counters are
  // CUDA's.
  __device__ void Meet() const { cooperative_groups::this_grid().sync(); }
};

// The barrier of a team: all blocks of the grid, or some of them.
//
// REQUIRES: *arrived begins at zero and is this team's alone
class DeviceTeam {
 public:
  __device__ DeviceTeam(unsigned blocks, std::uint32_t* arrived)
      : blocks_(blocks), arrived_(arrived) {}

  __device__ void Meet() {
    if (blocks_ == gridDim.x) {
      DeviceGrid().Meet();
      return;
    }
    __syncthreads();
    awaited_ += blocks_;
    if (threadIdx.x == 0 && blocks_ > 1) {
      __threadfence();  // this block's writes come before its arrival
      atomicAdd(arrived_, 1u);
      while (atomicAdd(arrived_, 0u) < awaited_) {
      }
      __threadfence();  // the arrivals come before the next reads
    }
    __syncthreads();
  }

 private:
  unsigned blocks_;
  std::uint32_t* arrived_;
  std::uint32_t awaited_ = 0;  // arrivals, since the first barrier
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_DEVICE_BLOCK_CUH_
