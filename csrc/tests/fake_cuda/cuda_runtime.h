// Replaces CUDA's header of this name, so that a C++ compiler compiles the
// unchanged .cu files, and runs them without a GPU: kernels on fibers
// (fibers.h), memory and streams on the host (device.h). Has only the parts
// that csrc/cuda and its checks use.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_CUDA_RUNTIME_H_
#define FEDPLUG_TESTS_FAKE_CUDA_CUDA_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "cuda_runtime_api.h"
#include "tests/fake_cuda/fibers.h"

#define __global__
#define __host__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
// Shared memory is thread-local, because a block is an operating system's
// thread and its CUDA threads are fibers of it. It begins with the values of
// the block before. `extern` memory begins as garbage.
#define __shared__ thread_local

// A number with a value for every fiber.
template <unsigned (*kAsk)()>
struct FiberIndex {
  struct {
    operator unsigned() const { return kAsk(); }
  } x;
};
inline constexpr FiberIndex<fedplug::fake_cuda::ThreadIndex> threadIdx{};
inline constexpr FiberIndex<fedplug::fake_cuda::BlockIndex> blockIdx{};
inline constexpr FiberIndex<fedplug::fake_cuda::GridSize> gridDim{};

inline void __syncthreads() { fedplug::fake_cuda::Barrier(false); }
inline int __syncthreads_or(int yes) {
  return fedplug::fake_cuda::BarrierOr(yes != 0) ? 1 : 0;
}
inline unsigned __ballot_sync(unsigned mask, bool yes) {
  return fedplug::fake_cuda::Ballot(mask, yes);
}
inline unsigned __shfl_up_sync(unsigned mask, unsigned value, unsigned delta) {
  return fedplug::fake_cuda::ShuffleUp(mask, value, delta);
}
inline unsigned __shfl_sync(unsigned mask, unsigned value, unsigned lane) {
  return fedplug::fake_cuda::Shuffle(mask, value, lane);
}
inline void __threadfence() { fedplug::fake_cuda::Fence(); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

template <typename Unsigned>
Unsigned __ldcg(const Unsigned* from) {
  return *from;
}

// Atomic operations order no other accesses, as on a GPU.
template <typename Unsigned>
Unsigned atomicAdd(Unsigned* sum, Unsigned value) {
  fedplug::fake_cuda::MaybeYield();
  return __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}

template <typename Unsigned>
Unsigned atomicMax(Unsigned* largest, Unsigned value) {
  fedplug::fake_cuda::MaybeYield();
  Unsigned old = __atomic_load_n(largest, __ATOMIC_RELAXED);
  while (value > old &&
         !__atomic_compare_exchange_n(largest, &old, value, true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

inline unsigned atomicInc(unsigned* counter, unsigned limit) {
  fedplug::fake_cuda::MaybeYield();
  unsigned old = __atomic_load_n(counter, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(counter, &old, old >= limit ? 0 : old + 1,
                                      true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}

// Copies the arguments now, as CUDA does. The kernel runs later on the stream.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  auto copies = std::make_shared<std::tuple<Parameters...>>(
      std::forward<Arguments>(arguments)...);
  return fedplug::fake_cuda::QueueLaunch(
      *config, [kernel, copies] { std::apply(kernel, *copies); });
}

#endif  // FEDPLUG_TESTS_FAKE_CUDA_CUDA_RUNTIME_H_
