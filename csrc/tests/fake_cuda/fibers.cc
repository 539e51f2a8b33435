#include "tests/fake_cuda/fibers.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/thread_pool.h"

// FEDPLUG_RACE_DETECTOR: the kernels are instrumented, this file is not.
#ifdef FEDPLUG_RACE_DETECTOR
#include <sanitizer/tsan_interface.h>
#endif

namespace fedplug::cuda {

// As device_block.cuh declares it.
alignas(16) thread_local std::byte
    shared_of_launch[fake_cuda::kMostSharedBytes];

}  // namespace fedplug::cuda

namespace fedplug::fake_cuda {
namespace {

constexpr std::byte kGarbage{0xa5};
constexpr unsigned kMostThreads = 512;
constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = std::size_t{1} << 17;

std::atomic<int> races_reported{0};
Mistakes mistakes_to_make;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "a kernel on fibers: %s\n", what);
  std::abort();
}

bool AnyMistake() {
  const Mistakes& made = mistakes_to_make;
  return made.skip_fences || made.barrier_to_skip >= 0 ||
         made.fence_to_skip >= 0 || made.grid_barrier_to_skip >= 0;
}

// Thrown to end a thread of a block that gave up.
struct GivenUp {};

// More than any correct kernel needs, so that an endless loop ends.
constexpr int kMostGridBarriers = 100;

// Orders, for the race detector alone, all after Acquire() behind everything
// before any Release().
struct Order {
#ifdef FEDPLUG_RACE_DETECTOR
  void Release() { __tsan_release(this); }
  void Acquire() { __tsan_acquire(this); }
#else
  void Release() {}
  void Acquire() {}
#endif
  char address = 0;
};

Order fences;

struct Grid {
  unsigned blocks;
  unsigned threads;
  std::size_t shared_bytes;
  const std::function<void()>* thread_body;
  bool backwards;
  std::atomic<unsigned> arrived{0};
  std::atomic<unsigned> passed{0};  // barriers of the grid
  std::atomic<bool> block_ended{false};
  Order begun{};
  Order ended{};
};

// A reusable barrier of `members` fibers.
struct Meeting {
  unsigned arrived = 0;
  unsigned phase = 0;
};

struct Warp {
  Meeting meeting;
  unsigned collected = 0;
  unsigned ballot = 0;
  unsigned values[2][kWarp] = {};
};

struct Block {
  Grid* grid = nullptr;
  unsigned index = 0;
  unsigned live = 0;
  int grid_barriers = 0;
  bool given_up = false;
  Meeting meeting;
  bool any = false;
  bool result[2] = {};
  Order order[2];
  Warp warps[kMostThreads / kWarp];
};

// A stack with the place at which it continues. On x86-64 a switch is a jump,
// because swapcontext makes a system call. The address sanitizer takes jumps
// between stacks for errors.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define FEDPLUG_FIBERS_JUMP 1
#endif

class Stack {
 public:
  // The stack begins with entry().
  void Prepare(char* memory, std::size_t bytes, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = memory;
    context_.uc_stack.ss_size = bytes;
    makecontext(&context_, entry, 0);
  }

  // Leaves this stack, which runs, until another one switches to it.
  [[gnu::noinline]] void SwitchTo(Stack& other) {
#ifdef FEDPLUG_FIBERS_JUMP
    begun_ = true;
    if (__builtin_setjmp(place_) != 0) return;
    if (other.begun_) Jump(other.place_);
    setcontext(&other.context_);
#else
    swapcontext(&context_, &other.context_);
#endif
  }

 private:
#ifdef FEDPLUG_FIBERS_JUMP
  [[noreturn, gnu::noinline]] static void Jump(void** place) {
    __builtin_longjmp(place, 1);
  }

  void* place_[5] = {};
  bool begun_ = false;
#endif
  ucontext_t context_{};
};

class Worker;

struct Fiber {
  Stack running;
  Worker* worker = nullptr;
  unsigned thread = 0;
  int barriers = 0;
  int fences = 0;
  bool done = true;
  const Meeting* waits_at = nullptr;
  unsigned waits_for = 0;  // another phase than this
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
#ifdef FEDPLUG_RACE_DETECTOR
  void* detector = __tsan_create_fiber(0);
  ~Fiber() { __tsan_destroy_fiber(detector); }
#endif

  bool CanRun() const {
    return !done && (waits_at == nullptr || waits_at->phase != waits_for);
  }
};

thread_local Fiber* current = nullptr;

// A multiprocessor with room for one block.
class Worker {
 public:
  Worker() {
    for (unsigned t = 0; t < kMostThreads; ++t) {
      Fiber& fiber = fibers_[t];
      fiber.worker = this;
      fiber.thread = t;
      fiber.running.Prepare(fiber.stack.get(), kStackBytes, &Worker::Enter);
    }
#ifdef FEDPLUG_RACE_DETECTOR
    detector_ = __tsan_get_current_fiber();
#endif
  }

  void Run(Grid* grid, unsigned index) {
    random_ = (index + 1) * 0x9E3779B97F4A7C15u + random_;
    block = Block();
    block.grid = grid;
    block.index = index;
    block.live = grid->threads;
    for (unsigned t = 0; t < grid->threads; ++t) {
      fibers_[t].done = false;
      fibers_[t].barriers = 0;
      fibers_[t].fences = 0;
      fibers_[t].waits_at = nullptr;
    }
    SpoilShared();
    while (block.live > 0) {
      if (!Sweep(grid->threads)) Die("threads wait for others that never come");
    }
    CheckShared();
  }

  // Until a sweep comes back to the fiber that calls.
  void SwitchBack() {
    SwitchDetector(detector_);
    current->running.SwitchTo(running_);
    // `current` is me again.
  }

  std::uint64_t Random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  Block block;

 private:
  static void Enter() {
    while (true) {
      Worker* const worker = current->worker;
      Grid* const grid = worker->block.grid;
      grid->begun.Acquire();
      worker->memory_.Acquire();
      try {
        (*grid->thread_body)();
      } catch (const GivenUp&) {
      }
      worker->memory_.Release();
      grid->ended.Release();
      current->done = true;
      if (--worker->block.live == 0) grid->block_ended = true;
      worker->SwitchBack();
    }
  }

  // Runs every fiber that can, once, in an arbitrary order. Threads come in
  // strides of an odd number, of which there are 2^n.
  bool Sweep(unsigned threads) {
    unsigned slots = 1;
    while (slots < threads) slots *= 2;
    const auto first = static_cast<unsigned>(Random());
    const auto stride = static_cast<unsigned>(Random()) | 1u;
    bool any = false;
    for (unsigned i = 0; i < slots; ++i) {
      const unsigned t = (first + i * stride) & (slots - 1);
      if (t >= threads || !fibers_[t].CanRun()) continue;
      any = true;
      current = &fibers_[t];
      current->waits_at = nullptr;
      SwitchTo(current);
    }
    return any;
  }

  void SwitchTo(Fiber* fiber) {
#ifdef FEDPLUG_RACE_DETECTOR
    SwitchDetector(fiber->detector);
#endif
    running_.SwitchTo(fiber->running);
  }

  // The shared memory of a launch begins as garbage, and so does the memory
  // after it.
  void SpoilShared() {
    if (block.grid->shared_bytes == 0) return;
    memory_.Acquire();
    auto& shared = cuda::shared_of_launch;
    std::fill(std::begin(shared), std::end(shared), kGarbage);
    memory_.Release();
  }

  void CheckShared() const {
    if (block.grid->shared_bytes == 0) return;
    const auto& shared = cuda::shared_of_launch;
    if (std::any_of(std::begin(shared) + block.grid->shared_bytes,
                    std::end(shared),
                    [](std::byte each) { return each != kGarbage; })) {
      Die("a thread wrote beyond the memory that the launch asked for");
    }
  }

  // Without ordering the one behind the other.
  static void SwitchDetector([[maybe_unused]] void* detector) {
#ifdef FEDPLUG_RACE_DETECTOR
    __tsan_switch_to_fiber(detector, __tsan_switch_to_fiber_no_sync);
#endif
  }

  Stack running_;  // of the worker's own thread
  void* detector_ = nullptr;
  std::uint64_t random_ = 0;
  Order memory_;  // shared memory goes from one block to the next
  std::vector<Fiber> fibers_{kMostThreads};
};

// Waits until `members` fibers have arrived. The last one runs `last` before
// any continues.
template <typename Last>
void Meet(Meeting* meeting, unsigned members, const Last& last) {
  const unsigned phase = meeting->phase;
  if (++meeting->arrived == members) {
    meeting->arrived = 0;
    last();
    ++meeting->phase;
    return;
  }
  while (meeting->phase == phase) {
    current->waits_at = meeting;
    current->waits_for = phase;
    current->worker->SwitchBack();
  }
}

bool MeetAtBarrier(bool yes) {
  Block& block = current->worker->block;
  const unsigned threads = block.grid->threads;
  if (block.live != threads) Die("a barrier that not all threads come to");
  const unsigned parity = block.meeting.phase % 2;
  block.any = block.any || yes;
  block.order[parity].Release();
  Meet(&block.meeting, threads, [&] {
    block.result[parity] = block.any;
    block.any = false;
  });
  block.order[parity].Acquire();
  return block.result[parity];
}

// To other blocks too.
void Yield() {
  current->worker->SwitchBack();
  std::this_thread::yield();
}

Warp& MyWarp(unsigned mask) {
  if (mask != 0xffffffffu) Die("a mask that leaves lanes out");
  return current->worker->block.warps[current->thread / kWarp];
}

}  // namespace

unsigned ThreadIndex() { return current->thread; }
unsigned BlockIndex() { return current->worker->block.index; }
unsigned GridSize() { return current->worker->block.grid->blocks; }

void Barrier(bool yes) {
  if (current->barriers++ == mistakes_to_make.barrier_to_skip) return;
  MeetAtBarrier(yes);
}

bool BarrierOr(bool yes) { return MeetAtBarrier(yes); }

// A mistake can let blocks diverge. A block that waits for an ended one, or
// waits too often, gives up, so that no grid hangs.
void GridBarrier() {
  Block& block = current->worker->block;
  Grid& grid = *block.grid;
  MeetAtBarrier(false);
  if (current->thread == 0 &&
      block.grid_barriers++ != mistakes_to_make.grid_barrier_to_skip) {
    if (grid.blocks > kBlocksAtOnce) {
      Die("blocks that wait for others that cannot run yet");
    }
    Fence();
    const unsigned phase = grid.passed.load(std::memory_order_relaxed);
    if (grid.arrived.fetch_add(1, std::memory_order_relaxed) ==
        grid.blocks - 1) {
      grid.arrived.store(0, std::memory_order_relaxed);
      grid.passed.store(phase + 1, std::memory_order_release);
    }
    block.given_up = block.grid_barriers > kMostGridBarriers;
    while (!block.given_up) {
      const bool ended = grid.block_ended;  // before it looks who has passed
      if (grid.passed.load(std::memory_order_acquire) != phase) break;
      block.given_up = ended;
      Yield();
    }
    if (block.given_up && !AnyMistake()) {
      Die("a block waits for others that have ended, or for ever");
    }
    Fence();
  }
  MeetAtBarrier(false);
  if (block.given_up) throw GivenUp();
}

unsigned Ballot(unsigned mask, bool yes) {
  Warp& warp = MyWarp(mask);
  if (yes) warp.collected |= 1u << current->thread % kWarp;
  Meet(&warp.meeting, kWarp, [&] {
    warp.ballot = warp.collected;
    warp.collected = 0;
  });
  return warp.ballot;
}

unsigned ShuffleUp(unsigned mask, unsigned value, unsigned delta) {
  const unsigned lane = current->thread % kWarp;
  return Shuffle(mask, value, lane >= delta ? lane - delta : lane);
}

unsigned Shuffle(unsigned mask, unsigned value, unsigned lane) {
  Warp& warp = MyWarp(mask);
  // The next meeting writes elsewhere than this one reads.
  unsigned* const values = warp.values[warp.meeting.phase % 2];
  values[current->thread % kWarp] = value;
  Meet(&warp.meeting, kWarp, [] {});
  return values[lane % kWarp];
}

void Fence() {
  if (mistakes_to_make.skip_fences) return;
  if (current->fences++ == mistakes_to_make.fence_to_skip) return;
  fences.Acquire();
  fences.Release();
}

void MaybeYield() {
  if (current->worker->Random() % 64 == 0) current->worker->SwitchBack();
}

void RunGrid(unsigned blocks, unsigned threads, std::size_t shared_bytes,
             const std::function<void()>& thread_body) {
  if (blocks == 0 || threads == 0 || threads > kMostThreads ||
      threads % kWarp != 0 || shared_bytes > kMostSharedBytes) {
    Die("a grid of a size that was not foreseen");
  }
  constexpr int kWorkers = kBlocksAtOnce;
  static ThreadPool pool(kWorkers);
  static bool backwards = false;
  backwards = !backwards;
  Grid grid{blocks, threads, shared_bytes, &thread_body, backwards};
  grid.begun.Release();
  std::atomic<int> present{0};
  pool.Run(kWorkers, [&](int number) {
    // Running blocks one after the other on one thread would hide races between
    // them.
    ++present;
    while (present < kWorkers) std::this_thread::yield();
    static thread_local Worker worker;
    for (auto i = static_cast<unsigned>(number); i < blocks;
         i += kBlocksAtOnce) {
      worker.Run(&grid, grid.backwards ? blocks - 1 - i : i);
    }
  });
  grid.ended.Acquire();
}

void Make(const Mistakes& mistakes) { mistakes_to_make = mistakes; }

int RacesReported() { return races_reported; }

}  // namespace fedplug::fake_cuda

#ifdef FEDPLUG_RACE_DETECTOR
#define FEDPLUG_EXPORT __attribute__((visibility("default")))
extern "C" {
// Counts races. The tests check the counts.
FEDPLUG_EXPORT void __tsan_on_report(void* /*report*/) {
  ++fedplug::fake_cuda::races_reported;
}
FEDPLUG_EXPORT const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0";
}
}
#endif
