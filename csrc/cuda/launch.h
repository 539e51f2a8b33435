// The errors of the CUDA runtime as a Status.
#ifndef FEDPLUG_CUDA_LAUNCH_H_
#define FEDPLUG_CUDA_LAUNCH_H_

#include <driver_types.h>

#include "core/base/status.h"

namespace fedplug::cuda {

// kDevice unless `error` is cudaSuccess. `operation` begins the message. Clears
// the error that the runtime stores. Errors of running kernels appear later, at
// the next wait for the stream.
Status ToStatus(cudaError_t error, const char* operation);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_LAUNCH_H_
