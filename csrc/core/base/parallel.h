// How a kernel asks for threads: it is handed somebody else's pool
// (TensorFlow's inside an op, our own small one in the NumPy module) or none.
// Must not know who owns the threads.
#ifndef FEDPLUG_CORE_BASE_PARALLEL_H_
#define FEDPLUG_CORE_BASE_PARALLEL_H_

#include <functional>

namespace fedplug {

class Parallel {
 public:
  virtual ~Parallel() = default;

  // At most this many tasks run at the same time (the caller's thread counts as
  // one).
  virtual int MaxThreads() const = 0;

  // Calls task(0) ... task(count - 1), each exactly once, and returns when all
  // are done. Throws what a task throws, and then need not have begun them all;
  // none still runs.
  virtual void Run(int count, const std::function<void(int)>& task) = 0;

 protected:
  friend class KeepAwake;

  // Nothing to do for a pool that has its own mind about sleeping. `helpers`
  // are woken at once, to be there when tasks come. THREADS: any
  virtual void BeginAwake(int /*helpers*/) {}
  virtual void EndAwake() {}
};

// For the length of a call that runs tasks several times: meanwhile threads
// that find none need not go to sleep at once, only to be woken for the next.
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
