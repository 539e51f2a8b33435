#include "tf/kernels/pooled_allocator.h"

#include <cstddef>
#include <string>

#include "core/base/block_pool.h"
#include "core/base/result_pool.h"

namespace fedplug {
namespace {

class PooledAllocator final : public tensorflow::Allocator {
 public:
  std::string Name() override { return "fedplug"; }

  void* AllocateRaw([[maybe_unused]] std::size_t alignment,
                    std::size_t bytes) override {
    static_assert(kAllocatorAlignment <= BlockPool::kAlignment &&
                      EIGEN_MAX_ALIGN_BYTES <= BlockPool::kAlignment,
                  "TensorFlow's kernels rely on this alignment");
    return ResultPool().Take(bytes);
  }

  void DeallocateRaw(void* block) override { ResultPool().GiveBack(block); }
};

}  // namespace

tensorflow::Allocator* ThePooledAllocator() {
  static auto* const allocator = new PooledAllocator;
  return allocator;
}

bool AsksMalloc(tensorflow::Allocator* allocator) {
  return allocator->Name() == "cpu";
}

}  // namespace fedplug
