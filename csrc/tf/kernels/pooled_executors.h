// TensorFlow's executors, with pooled memory.
#ifndef FEDPLUG_TF_KERNELS_POOLED_EXECUTORS_H_
#define FEDPLUG_TF_KERNELS_POOLED_EXECUTORS_H_

namespace fedplug {

// Names of executors with the results of TensorFlow's. Tensors on a CPU come
// from the pool of results if TensorFlow would use malloc, which returns large
// blocks to the system: fresh pages cost as much as filling them.
inline constexpr char kPooledExecutor[] = "FEDPLUG_DEFAULT";
inline constexpr char kPooledSingleThreadedExecutor[] =
    "FEDPLUG_SINGLE_THREADED";

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_POOLED_EXECUTORS_H_
