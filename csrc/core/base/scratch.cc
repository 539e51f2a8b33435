#include "core/base/scratch.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "core/base/thread_pool.h"

namespace fedplug {
namespace {

struct Shelf {
  const std::uint64_t forks = ForksSoFar();  // before it was made
  std::mutex mutex;
  std::unique_ptr<Scratch> free;
};

// Never destroyed, because threads may still compute at exit. A forked child
// has its own, as its parent's may be locked.
Shelf& TheShelf() {
  static std::atomic<Shelf*> the_shelf{new Shelf};
  Shelf* shelf = the_shelf.load(std::memory_order_acquire);
  if (shelf->forks == ForksSoFar()) return *shelf;
  auto fresh = std::make_unique<Shelf>();
  if (!the_shelf.compare_exchange_strong(shelf, fresh.get())) return *shelf;
  return *fresh.release();
}

}  // namespace

ScratchLease::ScratchLease() {
  {
    Shelf& shelf = TheShelf();
    const std::lock_guard<std::mutex> lock(shelf.mutex);
    if (shelf.free != nullptr) {
      scratch_ = std::move(shelf.free);
      shelf.free = std::move(scratch_->next);
    }
  }
  if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
}

ScratchLease::~ScratchLease() {
  Shelf& shelf = TheShelf();
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  scratch_->next = std::move(shelf.free);
  shelf.free = std::move(scratch_);
}

}  // namespace fedplug
