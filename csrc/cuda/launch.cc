#include "cuda/launch.h"

#include <cuda_runtime_api.h>

#include <string>

namespace fedplug::cuda {

Status LaunchStatus(const char* operation) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return {StatusCode::kDevice,
          std::string(operation) + ": the CUDA runtime says " +
              cudaGetErrorName(error) + " (" + cudaGetErrorString(error) +
              "); check the driver, the device's architecture (sm_80 or "
              "newer) and its free memory"};
}

}  // namespace fedplug::cuda
