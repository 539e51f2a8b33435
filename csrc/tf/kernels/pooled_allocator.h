// TensorFlow's allocator interface over the pool of results.
#ifndef FEDPLUG_TF_KERNELS_POOLED_ALLOCATOR_H_
#define FEDPLUG_TF_KERNELS_POOLED_ALLOCATOR_H_

#include "tensorflow/core/framework/allocator.h"

namespace fedplug {

// Never destroyed, because tensors may outlive other statics.
//
// THREADS: any
tensorflow::Allocator* ThePooledAllocator();

// Whether an allocator of TensorFlow uses malloc, which returns large blocks to
// the system. oneDNN's allocator keeps memory itself, and transfers to a GPU
// need other memory.
bool AsksMalloc(tensorflow::Allocator* allocator);

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_POOLED_ALLOCATOR_H_
