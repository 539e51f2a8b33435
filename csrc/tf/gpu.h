// Shared by the GPU kernels: their stream and scratch memory of the device. The
// CUDA runtime stays in csrc/cuda, and TensorFlow's CUDA headers, which the
// wheel does not ship whole, stay out.
#ifndef FEDPLUG_TF_GPU_H_
#define FEDPLUG_TF_GPU_H_

#include <cstddef>
#include <cstdint>

#include "tensorflow/compiler/xla/stream_executor/stream.h"
#include "tensorflow/core/framework/op_kernel.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug {

// The stream of the op. REQUIRES: the op runs on a GPU
inline CUstream_st* StreamOf(tensorflow::OpKernelContext* context) {
  return static_cast<CUstream_st*>(context->op_device_context()
                                       ->stream()
                                       ->implementation()
                                       ->GpuStreamHack());
}

// Device memory that may be released after the work that uses it is queued on
// the op's stream, or pinned host memory, which the device copies to without a
// detour.
class Scratch {
 public:
  tensorflow::Status Allocate(tensorflow::OpKernelContext* context,
                              std::size_t bytes) {
    return Allocate(context, bytes, {});
  }

  // Memory that may be released after the stream is through.
  tensorflow::Status AllocatePinned(tensorflow::OpKernelContext* context,
                                    std::size_t bytes) {
    tensorflow::AllocatorAttributes pinned;
    pinned.set_on_host(true);
    pinned.set_gpu_compatible(true);
    return Allocate(context, bytes, pinned);
  }

  std::size_t bytes() const {
    return static_cast<std::size_t>(tensor_.NumElements());
  }

  // REQUIRES: Allocate(sizeof(Element)) or more
  template <typename Element>
  Element* As() {
    return reinterpret_cast<Element*>(tensor_.flat<std::uint8_t>().data());
  }

 private:
  tensorflow::Status Allocate(tensorflow::OpKernelContext* context,
                              std::size_t bytes,
                              tensorflow::AllocatorAttributes attributes) {
    return context->allocate_temp(
        tensorflow::DT_UINT8,
        tensorflow::TensorShape({static_cast<std::int64_t>(bytes)}), &tensor_,
        attributes);
  }

  tensorflow::Tensor tensor_;
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_GPU_H_
