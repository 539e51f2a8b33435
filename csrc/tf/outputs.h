// The memory of outputs: the buffer of an input that is no longer used or, on a
// CPU, memory of an earlier output.
#ifndef FEDPLUG_TF_OUTPUTS_H_
#define FEDPLUG_TF_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace fedplug {

// As context->allocate_output, but large outputs that TensorFlow would allocate
// by malloc use a block of our BlockPool, which returns to it with the last
// tensor that shares it.
tensorflow::Status AllocateOutput(tensorflow::OpKernelContext* context,
                                  int index,
                                  const tensorflow::TensorShape& shape,
                                  tensorflow::Tensor** output);

// Makes `bytes` the output, a vector.
tensorflow::Status OutputBytes(tensorflow::OpKernelContext* context, int index,
                               const std::vector<std::uint8_t>& bytes);

// As context->forward_input_or_allocate_output. See AllocateOutput.
tensorflow::Status ForwardInputOrAllocateOutput(
    tensorflow::OpKernelContext* context, int input, int index,
    const tensorflow::TensorShape& shape, tensorflow::Tensor** output);

// Never destroyed, because tensors may outlive other statics.
//
// THREADS: any
tensorflow::Allocator* ThePooledAllocator();

// Whether an allocator of TensorFlow uses malloc, which returns large blocks to
// the system. oneDNN's allocator keeps memory itself, and transfers to a GPU
// need other memory.
bool AsksMalloc(tensorflow::Allocator* allocator);

}  // namespace fedplug

#endif  // FEDPLUG_TF_OUTPUTS_H_
