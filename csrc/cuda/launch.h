// The errors of the CUDA runtime as a Status. Must not know any kernel.
#ifndef FEDPLUG_CUDA_LAUNCH_H_
#define FEDPLUG_CUDA_LAUNCH_H_

#include <driver_types.h>

#include "core/base/status.h"

namespace fedplug::cuda {

// kDevice unless `error` is cudaSuccess; `operation` begins the message. What
// the runtime remembers of the error is cleared, so that nobody else finds it.
// An error of a kernel that is still running shows up later, wherever the
// stream is waited for.
Status ToStatus(cudaError_t error, const char* operation);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_LAUNCH_H_
