// The copies a caller of the kernels needs around them, so that it can do
// without the CUDA runtime.
#ifndef FEDPLUG_CUDA_COPY_H_
#define FEDPLUG_CUDA_COPY_H_

#include <cstddef>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// Queues a copy from device memory to device memory. REQUIRES: no overlap
Status QueueCopy(void* to, const void* from, std::size_t bytes,
                 CUstream_st* stream);

// Copies from device memory to host memory once all that was queued before is
// done, and waits for it. An error of any kernel before it surfaces here.
Status Fetch(void* host, const void* device, std::size_t bytes,
             CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_COPY_H_
