// What the steps of a kernel may use of a GPU: atomic operations, votes within
// a warp, and a block whose threads meet at barriers. A step is written against
//   block.Each(body)   body(thread) once for every thread of the block, then a
//                      barrier
// so that the same code runs on a GPU (device_block.cuh) and, one thread after
// the other, in a test on the CPU. Two rules make that sound: shared memory is
// touched inside Each only, and no thread reads within one Each what another
// thread writes in it. Must not know any kernel, nor the CUDA runtime.
#ifndef FEDPLUG_CUDA_BLOCK_H_
#define FEDPLUG_CUDA_BLOCK_H_

#include <cstdint>

#include "core/host_device.h"

namespace fedplug::cuda {

inline constexpr int kWarp = 32;

// THREADS: any number may add to the same *sum
FEDPLUG_HOST_DEVICE inline void AtomicAdd(std::uint32_t* sum,
                                          std::uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicAdd(sum, value);
#else
  *sum += value;
#endif
}

// THREADS: any number may raise the same *largest
FEDPLUG_HOST_DEVICE inline void AtomicMax(std::uint32_t* largest,
                                          std::uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicMax(largest, value);
#else
  if (value > *largest) *largest = value;
#endif
}

// THREADS: any number may lower the same *smallest
FEDPLUG_HOST_DEVICE inline void AtomicMin(std::uint64_t* smallest,
                                          std::uint64_t value) {
#ifdef __CUDA_ARCH__
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicMin(reinterpret_cast<unsigned long long*>(smallest), value);
#else
  if (value < *smallest) *smallest = value;
#endif
}

// Bit thread % 32 of *word says `yes` for this thread.
//
// REQUIRES: all threads of the warp vote, together and on the same word
FEDPLUG_HOST_DEVICE inline void Vote(int thread, bool yes,
                                     std::uint32_t* word) {
  const int lane = thread % kWarp;
#ifdef __CUDA_ARCH__
  const std::uint32_t ballot = __ballot_sync(0xffffffffu, yes);
  if (lane == 0) *word = ballot;
#else
  const std::uint32_t bit = 1u << lane;
  *word = yes ? *word | bit : *word & ~bit;
#endif
}

FEDPLUG_HOST_DEVICE inline std::uint32_t CountOnes(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__popc(bits));
#else
  return static_cast<std::uint32_t>(__builtin_popcount(bits));
#endif
}

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_BLOCK_H_
