#include "core/base/scratch.h"

#include <mutex>
#include <utility>

namespace fedplug {
namespace {

struct Shelf {
  std::mutex mutex;
  std::vector<std::unique_ptr<Scratch>> free;
};

// Never destroyed: threads may still compute while the process ends.
Shelf& TheShelf() {
  static Shelf* const shelf = new Shelf;
  return *shelf;
}

}  // namespace

ScratchLease::ScratchLease() {
  {
    Shelf& shelf = TheShelf();
    const std::lock_guard<std::mutex> lock(shelf.mutex);
    if (!shelf.free.empty()) {
      scratch_ = std::move(shelf.free.back());
      shelf.free.pop_back();
    }
  }
  if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
}

ScratchLease::~ScratchLease() {
  Shelf& shelf = TheShelf();
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  shelf.free.push_back(std::move(scratch_));
}

}  // namespace fedplug
