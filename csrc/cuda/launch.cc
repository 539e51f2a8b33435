#include "cuda/launch.h"

#include <cuda_runtime_api.h>

#include <string>

namespace fedplug::cuda {

Status ToStatus(cudaError_t error, const char* operation) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return {StatusCode::kDevice,
          std::string(operation) + ": the CUDA runtime says " +
              cudaGetErrorName(error) + " (" + cudaGetErrorString(error) +
              "); check the driver, the device's architecture (sm_80 or "
              "newer) and its free memory"};
}

}  // namespace fedplug::cuda
