// A grid whose blocks all run at the same time (a cooperative launch), and so
// may wait for each other; and the shared memory that a launch asks for. Must
// not know any kernel.
#ifndef FEDPLUG_CUDA_DEVICE_GRID_CUH_
#define FEDPLUG_CUDA_DEVICE_GRID_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device_block.cuh"

namespace fedplug::cuda {

// As many bytes as the launch asked for.
alignas(16) extern __shared__ std::byte shared_of_launch[];

// The barriers of the grid, each in two halves: all blocks count their arrival
// (IsLastToArrive), then whoever was the last does what is to be done once
// while the others wait here for it to be through.
class DeviceGrid {
 public:
  // REQUIRES: *passed is in the memory of the device, and zero before the
  //           launch
  __host__ __device__ explicit DeviceGrid(std::uint32_t* passed)
      : passed_(passed) {}

  // What the last block wrote, and what the others wrote before they arrived,
  // all of them may read from here on.
  //
  // REQUIRES: all threads of all blocks call it, after a barrier of the block,
  //           those of one block with `last`: it saw all others arrive
  __host__ __device__ void Meet(bool last) {
#ifdef __CUDA_ARCH__
    ++barrier_;
    if (threadIdx.x == 0) {
      if (last) {
        __threadfence();  // release, as in IsLastToArrive
        atomicExch(passed_, barrier_);
      } else {
        // The number is exact: nobody gets past the next barrier before this
        // block has come to it.
        while (atomicCAS(passed_, barrier_, barrier_) != barrier_) {
          __nanosleep(kNapNanoseconds);
        }
        __threadfence();  // acquire
      }
    }
    __syncthreads();
#else
    static_cast<void>(last);  // nvcc wants a host version; nothing calls it
#endif
  }

 private:
  static constexpr unsigned kNapNanoseconds = 20;

  std::uint32_t* passed_;
  std::uint32_t barrier_ = 0;
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_DEVICE_GRID_CUH_
