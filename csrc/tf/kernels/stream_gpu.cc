// Finds the CUDA stream of an op, in a separate file because its header is
// large.
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
