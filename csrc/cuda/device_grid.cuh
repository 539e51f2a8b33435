// A grid whose blocks all run at the same time (a cooperative launch), and so
// may wait for each other, and the shared memory that a launch asks for.
#ifndef FEDPLUG_CUDA_DEVICE_GRID_CUH_
#define FEDPLUG_CUDA_DEVICE_GRID_CUH_

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace fedplug::cuda {

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

#endif  // FEDPLUG_CUDA_DEVICE_GRID_CUH_
