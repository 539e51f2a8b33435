// Copies for callers of the kernels, which then need no CUDA runtime.
#ifndef FEDPLUG_CUDA_COPY_H_
#define FEDPLUG_CUDA_COPY_H_

#include <cstddef>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// Queues a copy from device memory to device memory. REQUIRES: no overlap
Status QueueCopy(void* to, const void* from, std::size_t bytes,
                 CUstream_st* stream);

// Copies from device memory to host memory after all queued work, and waits.
// Returns errors of earlier kernels.
Status Fetch(void* host, const void* device, std::size_t bytes,
             CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_COPY_H_
