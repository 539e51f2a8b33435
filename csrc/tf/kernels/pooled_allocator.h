// TensorFlow's interface to memory, over the pool that results come from.
#ifndef FEDPLUG_TF_KERNELS_POOLED_ALLOCATOR_H_
#define FEDPLUG_TF_KERNELS_POOLED_ALLOCATOR_H_

#include "tensorflow/core/framework/allocator.h"

namespace fedplug {

// Never destroyed: tensors may be gone later than anything else.
//
// THREADS: any
tensorflow::Allocator* ThePooledAllocator();

// Whether an allocator of TensorFlow's asks malloc, which gives large blocks
// back to the system. With oneDNN it has one that keeps memory itself, and what
// goes on to a GPU needs memory of another kind.
bool AsksMalloc(tensorflow::Allocator* allocator);

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_POOLED_ALLOCATOR_H_
