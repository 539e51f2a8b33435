// The errors of the CUDA runtime as a Status. Must not know any kernel.
#ifndef FEDPLUG_CUDA_LAUNCH_H_
#define FEDPLUG_CUDA_LAUNCH_H_

#include <driver_types.h>

#include "core/base/status.h"

namespace fedplug::cuda {

// kDevice unless `error` is cudaSuccess; `operation` begins the message.
Status ToStatus(cudaError_t error, const char* operation);

// What the runtime holds against the launches of this thread so far; clears it.
// An error of a kernel that is still running shows up later, wherever the
// stream is waited for.
Status LaunchStatus(const char* operation);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_LAUNCH_H_
