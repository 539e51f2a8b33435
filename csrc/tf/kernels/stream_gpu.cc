// Finds the CUDA stream of an op. Apart from the kernels, because the header it
// needs is a large one.
#include "tensorflow/compiler/xla/stream_executor/stream.h"
#include "tf/kernels/gpu.h"

namespace fedplug {

CUstream_st* StreamOf(tensorflow::OpKernelContext* context) {
  return static_cast<CUstream_st*>(context->op_device_context()
                                       ->stream()
                                       ->implementation()
                                       ->GpuStreamHack());
}

}  // namespace fedplug
