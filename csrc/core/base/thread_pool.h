// A small pool for callers without threads; forks, in which its threads do not exist; and the number of
// processors.
#ifndef FEDPLUG_CORE_BASE_THREAD_POOL_H_
#define FEDPLUG_CORE_BASE_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

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

// Detects that this process is a forked child, in which other threads do not
// exist and their locks stay locked.

// The number of forks between this process and the first caller. Code that
// stores the number beside state that does not survive a fork can detect the
// loss. Always 0 without fork().
//
// THREADS: any
std::uint64_t ForksSoFar();

// The number of processors a process may use: those of the machine, limited by
// its CPU affinity and the quota of its control group (container).

// 1 or more.
int AvailableProcessors();

// The quota of the control group or of a parent group, in processors, rounded
// up. 0 if there is none or it cannot be read. Supports both versions of
// Linux's control groups.
//
// `root` is the folder of /proc and /sys: "" on a machine, another one in
// tests.
int ProcessorQuota(const std::string& root);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_THREAD_POOL_H_
