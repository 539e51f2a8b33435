// Runs a grid of CUDA threads on the host: three blocks at a time, each on a
// thread of the operating system, and every thread of a block as a fiber, in an
// arbitrary order that yields at barriers, votes, shuffles and, now and then,
// at atomic operations.
//
// Under the thread sanitizer a fiber is a thread of its own, ordered after
// others by what orders CUDA threads and nothing else: the launch, barriers of
// its block, fences. So it reports the data races of a GPU, between blocks and
// within one, whichever way they ran. Not seen are races between blocks that
// follow each other on one thread of the system: every third. Fences are taken
// to order each what came before any other, and warps run out of step.
//
// This file and fibers.cc are not instrumented themselves.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_FIBERS_H_
#define FEDPLUG_TESTS_FAKE_CUDA_FIBERS_H_

#include <cstddef>
#include <functional>

namespace fedplug::fake_cuda {

// What a fiber asks for itself.
unsigned ThreadIndex();
unsigned BlockIndex();
unsigned GridSize();

// All threads of the block meet. The process ends, with a message, where some
// have returned from the kernel instead.
void Barrier(bool yes);
bool BarrierOr(bool yes);

// The 32 lanes of a warp meet, whose memory that does not order.
// REQUIRES: the mask names all of them
unsigned Ballot(unsigned mask, bool yes);
unsigned ShuffleUp(unsigned mask, unsigned value, unsigned delta);
unsigned Shuffle(unsigned mask, unsigned value, unsigned lane);

// All threads of all blocks meet, as cooperative_groups has them do: a barrier
// of the block, and for one thread of it a fence, the wait for the other
// blocks, and another fence; and a barrier of the block again.
//
// REQUIRES: there are no more than kResidentBlocks
void GridBarrier();

void Fence();
void MaybeYield();

// Number of blocks that run at a time; they may wait for each other if there
// are no more.
inline constexpr unsigned kResidentBlocks = 3;

// What a launch may ask for, of memory that a block shares.
inline constexpr std::size_t kMostSharedBytes = 227 * 1024;

// Calls `thread_body` on a fiber for every thread of every block, and waits.
// The process ends, with a message, where one wrote beyond the `shared_bytes`
// of the launch.
//
// REQUIRES: 0 < threads <= 512, a multiple of 32; blocks > 0;
//           shared_bytes <= kMostSharedBytes
void RunGrid(unsigned blocks, unsigned threads, std::size_t shared_bytes,
             const std::function<void()>& thread_body);

// Mistakes to make, for a test that wants to see them found.
struct Mistakes {
  int barrier_to_skip = -1;  // the how manieth of every block; -1 for none
  bool skip_fences = false;
  int fence_to_skip = -1;  // the how manieth of every thread; -1 for none
  int grid_barrier_to_skip = -1;  // the how manieth of every block
};
void Make(const Mistakes& mistakes);

// Data races reported so far; 0 without the thread sanitizer.
int RacesReported();

}  // namespace fedplug::fake_cuda

#endif  // FEDPLUG_TESTS_FAKE_CUDA_FIBERS_H_
