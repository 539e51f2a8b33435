// The operations of a GPU for the steps of a kernel: atomics, votes within a
// warp, and a block whose threads meet at barriers. A step uses
//   block.Each(body)      body(thread) once for every thread of the block, then
//                         a barrier
//   block.Agree(decide)   decide() once, for the whole block, and a barrier:
//                         returns the result to every thread
//   block.EachWarp(body)  body(warp, number) for every warp of the block, and
//                         a barrier; in it, for all lanes of the warp together,
//     warp.ExclusiveSums(get, set)
//                         set(lane, get(0) + ... + get(lane - 1)) for every
//                         lane, and returns the sum of all
//     warp.Once(body)     body(), by one lane
// (device_block.cuh). Shared memory is used inside Each only, and no thread
// reads memory that another thread writes in the same Each. Blocks run at the
// same time. A block may read global memory that another wrote, in a later
// launch, after a barrier of the grid (device_block.cuh), or if it is the last
// to arrive (IsLastToArrive).
#ifndef FEDPLUG_CUDA_BLOCK_H_
#define FEDPLUG_CUDA_BLOCK_H_

#include <cstdint>
#include <type_traits>

#include "core/base/floats.h"

namespace fedplug::cuda {

inline constexpr int kWarp = 32;

// Returns the old *sum.
//
// THREADS: any number may add to the same *sum
template <typename Unsigned>
FEDPLUG_HOST_DEVICE Unsigned AtomicAdd(Unsigned* sum,
                                       std::common_type_t<Unsigned> value) {
#ifdef __CUDA_ARCH__
  // CUDA's function takes another type than std::uint64_t.
  using Cuda = std::conditional_t<sizeof(Unsigned) == 8, unsigned long long,
                                  unsigned int>;
  return static_cast<Unsigned>(
      atomicAdd(reinterpret_cast<Cuda*>(sum), Cuda{value}));
#else
  return __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
#endif
}

// THREADS: any number may raise the same *largest
template <typename Unsigned>
FEDPLUG_HOST_DEVICE void AtomicMax(Unsigned* largest, Unsigned value) {
#ifdef __CUDA_ARCH__
  // CUDA's function takes another type than std::uint64_t.
  using Cuda = std::conditional_t<sizeof(Unsigned) == 8, unsigned long long,
                                  unsigned int>;
#ifdef __CUDACC__  // not the fake device
  // A look comes first, because atomic operations on one place take turns.
  if (value <= *static_cast<volatile Unsigned*>(largest)) return;
#endif
  atomicMax(reinterpret_cast<Cuda*>(largest), Cuda{value});
#else
  Unsigned old = __atomic_load_n(largest, __ATOMIC_RELAXED);
  while (value > old &&
         !__atomic_compare_exchange_n(largest, &old, value, true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

// Counts the arrival of a block. Returns true to the last of `count` blocks
// only, which may then read the others' writes before their arrivals. No block
// waits. Resets the counter to zero.
//
// REQUIRES: one thread of the block calls, after a barrier behind all that the
//           block writes and others may read, *arrived begins at zero
FEDPLUG_HOST_DEVICE inline bool IsLastToArrive(std::uint32_t* arrived,
                                               std::uint32_t count) {
#ifdef __CUDA_ARCH__
  // Release: the writes of this thread, and those of the other threads of the
  // block before the barrier, are visible to the GPU before the arrival is.
  __threadfence();
  if (atomicInc(arrived, count - 1) != count - 1) return false;
  // Acquire: the arrivals come before the reads from now on. Lines that this
  // multiprocessor kept in L1, which is not coherent, are dropped.
  __threadfence();
  return true;
#else
  const bool last = __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL) == count;
  if (last) __atomic_store_n(arrived, 0, __ATOMIC_RELAXED);
  return last;
#endif
}

// Reads a write of another block in this launch, after all have arrived: from
// L2, because L1 is not coherent.
template <typename Unsigned>
FEDPLUG_HOST_DEVICE Unsigned LoadArrived(const Unsigned* written) {
#ifdef __CUDA_ARCH__
  return __ldcg(written);
#else
  return *written;
#endif
}

// Sets bit thread % 32 of *word to `yes`.
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
