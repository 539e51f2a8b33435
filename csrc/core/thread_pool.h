// A small pool for callers that bring no threads of their own. Must not know
// what it runs.
#ifndef FEDPLUG_CORE_THREAD_POOL_H_
#define FEDPLUG_CORE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "core/parallel.h"

namespace fedplug {

// Runs one job at a time: while the pool is busy, a second caller runs its
// tasks by itself, which is never wrong and, with every core at work already,
// seldom slower. A caller waits for the tasks that were begun, not for the
// workers to wake; so in a forked child, where no worker lives on, it simply
// runs all the tasks itself.
//
// To wake a thread takes a third of the time of a walk over a million elements.
// So who waits for what will soon be there looks for it a while before he goes
// to sleep: a caller for the last tasks of his job, and, as long as there is a
// KeepAwake, a worker for the next job.
class ThreadPool final : public Parallel {
 public:
  // REQUIRES: threads >= 1, the caller's own included
  explicit ThreadPool(int threads);
  ~ThreadPool() override;

  int MaxThreads() const override {
    return static_cast<int>(workers_.size()) + 1;
  }

  // REQUIRES: no task throws
  // THREADS:  any; also from inside a task
  void Run(int count, const std::function<void(int)>& task) override;

 protected:
  void BeginAwake() override { ++awake_; }
  void EndAwake() override { --awake_; }

 private:
  struct Job;

  void Work();

  std::mutex one_job_;  // held by the caller whose job is running

  std::atomic<int> awake_{0};  // how many KeepAwake there are

  // Guards what follows. What is atomic of it is looked at without the mutex by
  // who has not gone to sleep yet, and written under it.
  std::mutex mutex_;
  std::condition_variable called_;
  std::condition_variable workers_left_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> calls_{0};  // to take a job, or to stop
  std::atomic<int> workers_inside_{0};
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_THREAD_POOL_H_
