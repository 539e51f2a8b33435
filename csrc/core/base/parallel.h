// The threads of a kernel: a pool passed by the caller (TensorFlow's inside an op, a small one in the
// NumPy module), or none; the tiles of their work; and their floating-point environment.
#ifndef FEDPLUG_CORE_BASE_PARALLEL_H_
#define FEDPLUG_CORE_BASE_PARALLEL_H_

#include <algorithm>
#include <cfenv>
#include <cstdint>
#include <functional>

namespace fedplug {

class Parallel {
 public:
  virtual ~Parallel() = default;

  // The most tasks that run at the same time, including one on the caller's
  // thread.
  virtual int MaxThreads() const = 0;

  // Calls task(0) ... task(count - 1), each exactly once, and returns when all
  // are done. Rethrows an exception of a task. Then some tasks may not have
  // started, and none still runs.
  virtual void Run(int count, const std::function<void(int)>& task) = 0;

 protected:
  friend class KeepAwake;

  // Wakes `helpers` threads and keeps them awake. Pools that manage sleeping
  // themselves do nothing. THREADS: any
  virtual void BeginAwake(int /*helpers*/) {}
  virtual void EndAwake() {}
};

// Keeps idle threads awake during a call that runs tasks several times.
class KeepAwake {
 public:
  // REQUIRES: `threads` outlives the object
  explicit KeepAwake(Parallel& threads, int helpers = 0) : threads_(threads) {
    threads_.BeginAwake(helpers);
  }
  ~KeepAwake() { threads_.EndAwake(); }
  KeepAwake(const KeepAwake&) = delete;
  KeepAwake& operator=(const KeepAwake&) = delete;

 private:
  Parallel& threads_;
};

// Runs everything on the caller's thread.
class Serial final : public Parallel {
 public:
  int MaxThreads() const override { return 1; }
  void Run(int count, const std::function<void(int)>& task) override {
    for (int i = 0; i < count; ++i) task(i);
  }
};

// Cuts a range [0, n) into one contiguous tile per task.

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// One tile per thread, but none with fewer than `smallest` units of work, for
// which waking a thread costs more than it saves. At least one.
inline int TileCount(std::int64_t work, std::int64_t smallest,
                     const Parallel& parallel) {
  const std::int64_t useful = work / smallest;
  return static_cast<int>(
      std::clamp<std::int64_t>(useful, 1, std::max(1, parallel.MaxThreads())));
}

// REQUIRES: 0 <= n, n * tiles < 2^63, 0 <= tile < tiles
inline Range TileOf(std::int64_t n, int tiles, int tile) {
  return {n * tile / tiles, n * (tile + 1) / tiles};
}

// The floating-point environment of the contract: round to nearest even,
// denormals kept. Threads of other libraries may flush denormals to zero
// (TensorFlow's pool does), and then the bits of a result would depend on the
// thread.

// Sets the default environment for the life of the object, on its thread. The
// calls are opaque to the compiler, so no load or store of a kernel moves
// across them, and with these the arithmetic stays inside.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_PARALLEL_H_
