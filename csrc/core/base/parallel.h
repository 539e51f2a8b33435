// The threads of a kernel: a pool passed by the caller (TensorFlow's inside an
// op, a small one in the NumPy module), or none.
#ifndef FEDPLUG_CORE_BASE_PARALLEL_H_
#define FEDPLUG_CORE_BASE_PARALLEL_H_

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

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_PARALLEL_H_
