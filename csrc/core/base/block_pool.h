// Memory for results, which outlive their call: the block of a freed result is
// reused. Fresh pages cost ten times the kernel that fills them, and malloc
// returns large blocks to the system.
#ifndef FEDPLUG_CORE_BASE_BLOCK_POOL_H_
#define FEDPLUG_CORE_BASE_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fedplug {

class BlockPool {
 public:
  // Limits for idle blocks. The block that has been idle for longest is freed
  // first.
  struct Limits {
    std::size_t kept_from;   // bytes; smaller blocks are freed at once
    std::size_t idle_bytes;  // never more than this
    std::int64_t
        idle_takes;  // calls of Take after which an idle block is freed
  };

  static constexpr std::size_t kAlignment = 64;

  explicit BlockPool(Limits limits);
  // REQUIRES: every block was given back
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Returns `bytes` bytes or up to an eighth more, aligned to kAlignment and
  // uninitialised. Null if there is no memory, even after freeing idle blocks.
  //
  // THREADS: any, also GiveBack
  void* Take(std::size_t bytes);

  // If there is no memory to record it, the block is freed.
  //
  // REQUIRES: Take returned `block`, which is not null
  void GiveBack(void* block) noexcept;

  std::size_t IdleBytes() const;

 private:
  struct Idle {
    void* block;
    std::int64_t since;  // takes_ when it was given back
  };

  // The most recently used idle block of this capacity, or null.
  void* TakeIdle(std::size_t capacity);
  // False if there is no memory to record the block.
  bool Keep(void* block) noexcept;
  // A block that is idle beyond the limits, or null.
  void* TakeExcess() noexcept;
  // Frees without the lock, because freeing takes time.
  void FreeExcess() noexcept;
  void FreeIdle() noexcept;

  const Limits limits_;
  mutable std::mutex mutex_;
  std::vector<Idle> idle_;  // the one idle for longest first
  std::size_t idle_bytes_ = 0;
  std::int64_t takes_ = 0;
};

// The pool of the memory of results, both tensors and arrays.

// Below this size malloc keeps freed blocks and their pages. It gives back the
// pages of larger ones that are freed together, as a payload's entries are.
constexpr std::size_t kPooledFrom = std::size_t{64} << 10;

// Never destroyed, because results may outlive other statics. Holds the results
// of an update of 10^8 parameters. A process that changes sizes soon frees the
// old blocks.
//
// THREADS: any
inline BlockPool& ResultPool() {
  constexpr BlockPool::Limits kLimits = {kPooledFrom, std::size_t{512} << 20,
                                         1024};
  static auto* const pool = new BlockPool(kLimits);
  return *pool;
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_BLOCK_POOL_H_
