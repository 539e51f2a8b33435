// A grid whose blocks all run at the same time (a cooperative launch), and so
// may wait for each other; and the shared memory that a launch asks for.
#ifndef FEDPLUG_CUDA_DEVICE_GRID_CUH_
#define FEDPLUG_CUDA_DEVICE_GRID_CUH_

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstddef>

namespace fedplug::cuda {

// The shared memory of the launch.
alignas(16) extern __shared__ std::byte shared_of_launch[];

struct DeviceGrid {
  // A barrier of all threads of all blocks: afterwards all may read what any
  // wrote before. It needs no initialised memory, because its counters are
  // CUDA's.
  __device__ void Meet() const { cooperative_groups::this_grid().sync(); }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_DEVICE_GRID_CUH_
