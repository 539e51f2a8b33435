// The limits of a device for kernels whose blocks all run at the same time.
#ifndef FEDPLUG_CUDA_DEVICE_LIMITS_H_
#define FEDPLUG_CUDA_DEVICE_LIMITS_H_

#include <cstdint>

#include "core/base/status.h"

namespace fedplug::cuda {

struct DeviceLimits {
  int multiprocessors = 0;
  bool cooperative = false;      // whether blocks may wait for each other
  bool large_arguments = false;  // whether kernels take 32 KB of arguments
};

// The limits of the calling thread's current device.
//
// THREADS: any number at the same time
// COST:    asks the runtime once for each device
Status FindDeviceLimits(DeviceLimits* limits);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_DEVICE_LIMITS_H_
