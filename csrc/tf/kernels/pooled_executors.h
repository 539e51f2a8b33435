// TensorFlow's executors, with memory that an earlier operation has left
// behind.
#ifndef FEDPLUG_TF_KERNELS_POOLED_EXECUTORS_H_
#define FEDPLUG_TF_KERNELS_POOLED_EXECUTORS_H_

namespace fedplug {

// Names of executors that make the same results as TensorFlow's. The tensors
// that operations ask a CPU for lie in the pool of results, if TensorFlow would
// ask malloc. That gives every large tensor back to the system, and to take new
// pages for the next one costs as much as to fill it.
inline constexpr char kPooledExecutor[] = "FEDPLUG_DEFAULT";
inline constexpr char kPooledSingleThreadedExecutor[] =
    "FEDPLUG_SINGLE_THREADED";

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_POOLED_EXECUTORS_H_
