// Runs a grid of CUDA threads on the host: three blocks at a time, each on a
// thread of the operating system, and every thread of a block as a fiber, in an
// arbitrary order that yields at barriers, votes, shuffles and, now and then,
// at atomic operations.
//
// Under the thread sanitizer a fiber is a thread of its own, ordered after
// others only by the means that order CUDA threads: the launch, barriers of
// its block, fences. It reports the data races of a GPU, between blocks and
// within one, in any order of execution. It misses races between blocks that
// follow each other on one system thread (every third). Fences are taken to
// order everything before them, and warps are not in lockstep.
//
// This file and fibers.cc are not instrumented themselves.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_FIBERS_H_
#define FEDPLUG_TESTS_FAKE_CUDA_FIBERS_H_

#include <cstddef>
#include <functional>

namespace fedplug::fake_cuda {

// Queries of a fiber.
unsigned ThreadIndex();
unsigned BlockIndex();
unsigned GridSize();

// A barrier of the block. Ends the process with a message if some threads have
// returned from the kernel.
void Barrier(bool yes);
bool BarrierOr(bool yes);

// A barrier of the 32 lanes of a warp, which orders no memory.
// REQUIRES: the mask names all of them
unsigned Ballot(unsigned mask, bool yes);
unsigned ShuffleUp(unsigned mask, unsigned value, unsigned delta);
unsigned Shuffle(unsigned mask, unsigned value, unsigned lane);

// A barrier of the grid, as cooperative_groups implements it: a barrier of the
// block; a fence, the wait for the other blocks and another fence by one
// thread; and a barrier of the block.
//
// REQUIRES: there are no more than kBlocksAtOnce
void GridBarrier();

void Fence();
void MaybeYield();

// Number of blocks that run at a time. They may wait for each other if there
// are no more.
inline constexpr unsigned kBlocksAtOnce = 3;

// The limit of a launch's shared memory.
inline constexpr std::size_t kMostSharedBytes = 48 * 1024;

// Calls `thread_body` on a fiber for every thread of every block, and waits.
// Ends the process with a message if one wrote beyond the `shared_bytes` of the
// launch.
//
// REQUIRES: 0 < threads <= 512, a multiple of 32; blocks > 0;
//           shared_bytes <= kMostSharedBytes
void RunGrid(unsigned blocks, unsigned threads, std::size_t shared_bytes,
             const std::function<void()>& thread_body);

// Deliberate mistakes, for tests of the detector.
struct Mistakes {
  int barrier_to_skip = -1;  // the how manieth of every block; -1 for none
  bool skip_fences = false;
  int fence_to_skip = -1;  // the how manieth of every thread; -1 for none
  int grid_barrier_to_skip = -1;  // the how manieth of every block
};
void Make(const Mistakes& mistakes);

// Data races reported so far, 0 without the thread sanitizer.
int RacesReported();

}  // namespace fedplug::fake_cuda

#endif  // FEDPLUG_TESTS_FAKE_CUDA_FIBERS_H_
