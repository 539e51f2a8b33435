// A small pool for callers that bring no threads of their own. Must not know
// what it runs.
#ifndef FEDPLUG_CORE_BASE_THREAD_POOL_H_
#define FEDPLUG_CORE_BASE_THREAD_POOL_H_

#include <atomic>
#include <functional>

#include "core/base/parallel.h"

namespace fedplug {

// Runs one job at a time, as SharedWork does. No thread lives on in a forked
// child, where the pool begins new ones when it is next used.
class ThreadPool final : public Parallel {
 public:
  // Where so many cannot be started (a container may limit them), the pool has
  // those that could.
  // REQUIRES: threads >= 1, the caller's own included
  explicit ThreadPool(int threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int MaxThreads() const override;

  // THREADS: any; also from inside a task
  void Run(int count, const std::function<void(int)>& task) override;

 protected:
  void BeginAwake(int helpers) override;
  void EndAwake() override;

 private:
  class Team;

  // That of this process: what a fork left of the parent's is never touched
  // again, its locks may be held by threads that are not there.
  Team& Here() const;

  const int threads_;
  mutable std::atomic<Team*> team_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_THREAD_POOL_H_
