// Marks the functions that a GPU kernel may call too. Nothing at all unless a
// CUDA compiler reads it, so that the core stays plain C++17.
#ifndef FEDPLUG_CORE_BASE_HOST_DEVICE_H_
#define FEDPLUG_CORE_BASE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define FEDPLUG_HOST_DEVICE __host__ __device__
#else
#define FEDPLUG_HOST_DEVICE
#endif

#endif  // FEDPLUG_CORE_BASE_HOST_DEVICE_H_
