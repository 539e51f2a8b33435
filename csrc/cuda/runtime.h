// The CUDA runtime for the kernels and their callers: its errors as a Status, copies, the limits of a
// device, and the memory that a caller gives to a call.
#ifndef FEDPLUG_CUDA_RUNTIME_H_
#define FEDPLUG_CUDA_RUNTIME_H_

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace fedplug::cuda {

// kDevice unless `error` is cudaSuccess. `operation` begins the message. Clears
// the error that the runtime stores. Errors of running kernels appear later, at
// the next wait for the stream.
Status ToStatus(cudaError_t error, const char* operation);

}  // namespace fedplug::cuda

// Copies for callers of the kernels, which then need no CUDA runtime.

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// Queues a copy from device memory to device memory. REQUIRES: no overlap
Status QueueCopy(void* to, const void* from, std::size_t bytes,
                 CUstream_st* stream);

// Copies from device memory to host memory after all queued work, and waits.
// Returns errors of earlier kernels.
Status Fetch(void* host, const void* device, std::size_t bytes,
             CUstream_st* stream);

// The limits of a device for kernels whose blocks all run at the same time.

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

// The memory that a caller gives to a call on a GPU.

// The bytes of a part, so that the next one is aligned to 256 bytes.
inline std::int64_t AlignedBytes(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Allocates arrays from a block of memory, one after the other. Without one,
// only counts.
class Cutter {
 public:
  explicit Cutter(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename Element>
  Element* Take(std::int64_t count) {
    auto* const taken = memory_ == nullptr
                            ? nullptr
                            : reinterpret_cast<Element*>(memory_ + bytes_);
    bytes_ += AlignedBytes(count * static_cast<std::int64_t>(sizeof(Element)));
    return taken;
  }

  std::size_t bytes() const { return static_cast<std::size_t>(bytes_); }

 private:
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

// Refuses (kInvalidArgument) a workspace that is too small.
inline Status CheckWorkspace(std::size_t bytes, std::size_t needed) {
  if (bytes >= needed) return {};
  return {StatusCode::kInvalidArgument,
          "the workspace has " + std::to_string(bytes) +
              " bytes but must have " + std::to_string(needed)};
}

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_RUNTIME_H_
