#include "core/base/block_pool.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace fedplug {
namespace {

// Lies in front of the bytes of a block.
struct alignas(BlockPool::kAlignment) Header {
  std::size_t capacity;
};

std::size_t CapacityOf(void* block) {
  return (static_cast<Header*>(block) - 1)->capacity;
}

// Few capacities, so that a result that is a little larger or smaller than the
// last one, as with a k that changes, still finds its block.
std::size_t RoundUp(std::size_t bytes) {
  std::size_t step = 4096;
  while (step <= bytes / 16) step *= 2;
  return (bytes + step - 1) / step * step;
}

// Asks for huge pages where there are some within the memory: their number is
// what the first use of a block pays for. As NumPy does, from the same size on.
void AdviseHugePages([[maybe_unused]] void* memory,
                     [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  constexpr std::size_t kPage = 4096;
  if (bytes < std::size_t{4} << 20) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = (address + kPage - 1) / kPage * kPage;
  // A hint; a kernel without huge pages refuses it.
  madvise(reinterpret_cast<void*>(aligned), bytes - (aligned - address),
          MADV_HUGEPAGE);
#endif
}

void* Allocate(std::size_t capacity) {
  const std::size_t bytes = sizeof(Header) + capacity;
  void* const memory =
      ::operator new(bytes, std::align_val_t{alignof(Header)}, std::nothrow);
  if (memory == nullptr) return nullptr;
  AdviseHugePages(memory, bytes);
  return new (memory) Header{capacity} + 1;
}

void Free(void* block) {
  ::operator delete(static_cast<Header*>(block) - 1,
                    std::align_val_t{alignof(Header)});
}

}  // namespace

BlockPool::BlockPool(Limits limits) : limits_(limits) {}

BlockPool::~BlockPool() { FreeIdle(); }

void* BlockPool::Take(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2) return nullptr;
  const std::size_t capacity = RoundUp(bytes);
  void* block;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++takes_;
    block = TakeIdle(capacity);
  }
  FreeExcess();
  if (block == nullptr) block = Allocate(capacity);
  if (block != nullptr) return block;
  FreeIdle();
  return Allocate(capacity);
}

void BlockPool::GiveBack(void* block) noexcept {
  if (!Keep(block)) Free(block);
  FreeExcess();
}

std::size_t BlockPool::IdleBytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return idle_bytes_;
}

void* BlockPool::TakeIdle(std::size_t capacity) {
  const auto found = std::find_if(
      idle_.rbegin(), idle_.rend(),
      [&](const Idle& idle) { return CapacityOf(idle.block) == capacity; });
  if (found == idle_.rend()) return nullptr;
  void* const block = found->block;
  idle_.erase(std::next(found).base());
  idle_bytes_ -= capacity;
  return block;
}

bool BlockPool::Keep(void* block) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    idle_.push_back({block, takes_});
  } catch (const std::bad_alloc&) {
    return false;
  }
  idle_bytes_ += CapacityOf(block);
  return true;
}

void* BlockPool::TakeExcess() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) return nullptr;
  const Idle longest = idle_.front();
  const bool too_long = takes_ - longest.since > limits_.idle_takes;
  if (idle_bytes_ <= limits_.idle_bytes && !too_long) return nullptr;
  idle_.erase(idle_.begin());
  idle_bytes_ -= CapacityOf(longest.block);
  return longest.block;
}

void BlockPool::FreeIdle() noexcept {
  std::vector<Idle> idle;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle.swap(idle_);
    idle_bytes_ = 0;
  }
  for (const Idle& each : idle) Free(each.block);
}

void BlockPool::FreeExcess() noexcept {
  while (void* const block = TakeExcess()) Free(block);
}

}  // namespace fedplug
