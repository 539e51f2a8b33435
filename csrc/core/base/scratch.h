// Memory for the time of a call. Fresh pages cost ten times the kernel that
// fills them, so the memory is kept for the next call.
#ifndef FEDPLUG_CORE_BASE_SCRATCH_H_
#define FEDPLUG_CORE_BASE_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fedplug {

// A growing block of uninitialised memory, for numbers of any type.
class ScratchBuffer {
 public:
  // The contents are lost when it grows.
  // Throws: std::bad_alloc
  template <typename T>
  T* Reserve(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(new std::byte[bytes]);
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

struct Scratch {
  ScratchBuffer values;
  ScratchBuffer indices;
  ScratchBuffer keys;
  ScratchBuffer ranked;
  ScratchBuffer undo;

  std::unique_ptr<Scratch> next;  // in the list of free ones
};

// Lends a Scratch for its lifetime. There are as many as were ever lent at the
// same time. They live as long as the process.
class ScratchLease {
 public:
  // Throws: std::bad_alloc
  ScratchLease();
  // Allocates nothing, because it also runs after std::bad_alloc.
  ~ScratchLease();
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;

  Scratch* operator->() const { return scratch_.get(); }

 private:
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_SCRATCH_H_
