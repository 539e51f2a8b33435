#include "cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

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

Status QueueCopy(void* to, const void* from, std::size_t bytes,
                 cudaStream_t stream) {
  return ToStatus(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
      "copy on the device");
}

Status Fetch(void* host, const void* device, std::size_t bytes,
             cudaStream_t stream) {
  cudaError_t error =
      cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return ToStatus(error, "copy from the device");
}

namespace {

Status AskFor(int device, DeviceLimits* limits) {
  int cooperative = 0;
  for (const auto& [attribute, value] :
       {std::pair{cudaDevAttrMultiProcessorCount, &limits->multiprocessors},
        std::pair{cudaDevAttrCooperativeLaunch, &cooperative}}) {
    Status status = ToStatus(cudaDeviceGetAttribute(value, attribute, device),
                             "the limits of the device");
    if (!status.ok()) return status;
  }
  int driver = 0;
  if (Status status =
          ToStatus(cudaDriverGetVersion(&driver), "the version of the driver");
      !status.ok()) {
    return status;
  }
  limits->large_arguments = driver >= 12010;
  limits->cooperative = cooperative != 0;
  return {};
}

}  // namespace

Status FindDeviceLimits(DeviceLimits* limits) {
  static std::mutex mutex;
  static std::map<int, DeviceLimits>* const known =
      new std::map<int, DeviceLimits>;
  int device = 0;
  if (Status status = ToStatus(cudaGetDevice(&device), "the current device");
      !status.ok()) {
    return status;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = known->find(device); found != known->end()) {
    *limits = found->second;
    return {};
  }
  if (Status status = AskFor(device, limits); !status.ok()) return status;
  known->emplace(device, *limits);
  return {};
}

}  // namespace fedplug::cuda
