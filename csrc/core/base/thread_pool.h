// A small pool for callers without threads.
#ifndef FEDPLUG_CORE_BASE_THREAD_POOL_H_
#define FEDPLUG_CORE_BASE_THREAD_POOL_H_

#include <atomic>
#include <functional>

#include "core/base/parallel.h"

namespace fedplug {

// Runs one job at a time, as SharedWork does. In a forked child, the next use
// starts new threads.
class ThreadPool final : public Parallel {
 public:
  // If fewer threads can be started (a container may limit them), the pool has
  // these.
  // REQUIRES: threads >= 1, the caller's own included
  explicit ThreadPool(int threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int MaxThreads() const override;

  // THREADS: any. Also from inside a task
  void Run(int count, const std::function<void(int)>& task) override;

 protected:
  void BeginAwake(int helpers) override;
  void EndAwake() override;

 private:
  class Team;

  // The pool of this process. The parent's is never used after a fork: its
  // locks may be held by threads that no longer exist.
  Team& Here() const;

  const int threads_;
  mutable std::atomic<Team*> team_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_THREAD_POOL_H_
