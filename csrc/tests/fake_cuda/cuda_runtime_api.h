// Replaces CUDA's header of this name: the functions of the runtime that
// csrc/cuda and its checks call, on a device in host memory. device.h has the
// test's interface to that device.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_CUDA_RUNTIME_API_H_
#define FEDPLUG_TESTS_FAKE_CUDA_CUDA_RUNTIME_API_H_

#include <cstddef>
#include <functional>

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorCooperativeLaunchTooLarge = 720,
};

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
};

struct CUstream_st;
using cudaStream_t = CUstream_st*;

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2 };

union cudaLaunchAttributeValue {
  int cooperative;
};

struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrCooperativeLaunch = 95,
};

struct cudaDeviceProp {
  char name[256];
  int major;
  int minor;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void* kernel, int threads, std::size_t shared_bytes);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
template <typename Element>
cudaError_t cudaMalloc(Element** memory, std::size_t bytes) {
  void* plain = nullptr;
  const cudaError_t error = cudaMalloc(&plain, bytes);
  *memory = static_cast<Element*>(plain);
  return error;
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes,
                            cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
inline constexpr unsigned cudaHostAllocPortable = 1;
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                       cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream = nullptr);

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();

namespace fedplug::fake_cuda {
cudaError_t QueueLaunch(const cudaLaunchConfig_t& config,
                        std::function<void()> thread_body);
}

#endif  // FEDPLUG_TESTS_FAKE_CUDA_CUDA_RUNTIME_API_H_
