#include "cuda/copy.h"

#include <cuda_runtime_api.h>

#include "cuda/launch.h"

namespace fedplug::cuda {

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

}  // namespace fedplug::cuda
