// Kernels of steps: a block of threads runs step(block, tile, shared).
#ifndef FEDPLUG_CUDA_STEP_KERNEL_CUH_
#define FEDPLUG_CUDA_STEP_KERNEL_CUH_

#include "cuda/device_block.cuh"
#include "cuda/launch.cuh"

namespace fedplug::cuda {

inline constexpr int kStepThreads = 256;

template <typename Step>
__global__ void __launch_bounds__(kStepThreads)
    StepKernel(const __grid_constant__ Step step) {
  __shared__ typename Step::Shared shared;
  step(DeviceBlock{}, blockIdx.x, shared);
}

// Queues step.Tiles() blocks of threads.
template <typename Step>
void QueueStep(const Step& step, LaunchQueue* queue) {
  const auto tiles = static_cast<unsigned>(step.Tiles());
  if (tiles > 0) queue->Launch(StepKernel<Step>, tiles, kStepThreads, step);
}

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_STEP_KERNEL_CUH_
