// A grid whose blocks all run at the same time (a cooperative launch), and so
// may wait for each other; and the shared memory that a launch asks for.
#ifndef FEDPLUG_CUDA_DEVICE_GRID_CUH_
#define FEDPLUG_CUDA_DEVICE_GRID_CUH_

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstddef>

namespace fedplug::cuda {

// As many bytes as the launch asked for.
alignas(16) extern __shared__ std::byte shared_of_launch[];

struct DeviceGrid {
  // A barrier of all threads of all blocks: what any of them wrote before it,
  // all may read from here on. Its counters are CUDA's own, so that it works
  // before anything else is in order.
  __device__ void Meet() const { cooperative_groups::this_grid().sync(); }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_DEVICE_GRID_CUH_
