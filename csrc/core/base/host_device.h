// Marks functions that a GPU kernel may call. Empty unless a CUDA compiler
// reads it, so the core stays plain C++17.
#ifndef FEDPLUG_CORE_BASE_HOST_DEVICE_H_
#define FEDPLUG_CORE_BASE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define FEDPLUG_HOST_DEVICE __host__ __device__
#else
#define FEDPLUG_HOST_DEVICE
#endif

#endif  // FEDPLUG_CORE_BASE_HOST_DEVICE_H_
