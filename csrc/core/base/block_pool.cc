#include "core/base/block_pool.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
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

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

// Few capacities, so that results of similar sizes (a k that changes) reuse a
// block. Whole huge pages if that adds little.
std::size_t CapacityFor(std::size_t bytes) {
  const std::size_t huge = RoundUp(bytes, kHugePage);
  if (huge <= bytes + bytes / 16) return huge;
  std::size_t step = 4096;
  while (step <= bytes / 16) step *= 2;
  return RoundUp(bytes, step);
}

#if defined(__linux__)

constexpr std::size_t kPagesFrom = kHugePage;

std::size_t PageSize() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Pages from the system, so that huge ones begin with the block: the first use
// costs one fault per page, and a walk needs fewer address lookups. Memory from
// malloc may lie on small pages.
//
// REQUIRES: `capacity` is at least kPagesFrom
void* AllocatePages(std::size_t capacity) {
  const std::size_t page = PageSize();
  const std::size_t kept = page + RoundUp(capacity, page);
  const std::size_t asked = kept + kHugePage;
  void* const memory = mmap(nullptr, asked, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(memory);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before =
      RoundUp(address + page, kHugePage) - page - address;
  char* const first = begin + before;  // the header is the end of this page
  if (before > 0) munmap(begin, before);
  munmap(first + kept, asked - before - kept);
  char* const block = first + page;
  // A hint. A kernel without huge pages refuses it.
  madvise(block, capacity / kHugePage * kHugePage, MADV_HUGEPAGE);
  return block;
}

void FreePages(void* block, std::size_t capacity) {
  const std::size_t page = PageSize();
  munmap(static_cast<char*>(block) - page, page + RoundUp(capacity, page));
}

#else

constexpr std::size_t kPagesFrom = std::numeric_limits<std::size_t>::max();
void* AllocatePages(std::size_t) { return nullptr; }
void FreePages(void*, std::size_t) {}

#endif

void* AllocateBytes(std::size_t capacity) {
  void* const memory =
      ::operator new(sizeof(Header) + capacity,
                     std::align_val_t{alignof(Header)}, std::nothrow);
  return memory == nullptr ? nullptr : static_cast<Header*>(memory) + 1;
}

void* Allocate(std::size_t capacity) {
  void* const block =
      capacity < kPagesFrom ? AllocateBytes(capacity) : AllocatePages(capacity);
  if (block != nullptr) new (static_cast<Header*>(block) - 1) Header{capacity};
  return block;
}

void Free(void* block) {
  const std::size_t capacity = CapacityOf(block);
  if (capacity >= kPagesFrom) return FreePages(block, capacity);
  ::operator delete(static_cast<Header*>(block) - 1,
                    std::align_val_t{alignof(Header)});
}

}  // namespace

BlockPool::BlockPool(Limits limits) : limits_(limits) {}

BlockPool::~BlockPool() { FreeIdle(); }

void* BlockPool::Take(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2) return nullptr;
  if (bytes < limits_.kept_from) return Allocate(bytes);
  const std::size_t capacity = CapacityFor(bytes);
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
  if (CapacityOf(block) < limits_.kept_from) return Free(block);
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
