#include "cuda/device_limits.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "cuda/launch.h"

namespace fedplug::cuda {
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
