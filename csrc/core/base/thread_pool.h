// A small pool for callers that bring no threads of their own. Must not know
// what it runs.
#ifndef FEDPLUG_CORE_BASE_THREAD_POOL_H_
#define FEDPLUG_CORE_BASE_THREAD_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/shared_work.h"

namespace fedplug {

// Runs one job at a time, as SharedWork does. In a forked child no worker lives
// on, and a caller runs all the tasks himself.
class ThreadPool final : public Parallel {
 public:
  // Where so many cannot be started (a container may limit them), the pool has
  // those that could.
  // REQUIRES: threads >= 1, the caller's own included
  explicit ThreadPool(int threads);
  ~ThreadPool() override;

  int MaxThreads() const override {
    return static_cast<int>(workers_.size()) + 1;
  }

  // THREADS: any; also from inside a task
  void Run(int count, const std::function<void(int)>& task) override;

 protected:
  void BeginAwake() override { work_.BeginAwake(); }
  void EndAwake() override { work_.EndAwake(); }

 private:
  void HelpWhenCalled();

  SharedWork work_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable called_;
  std::uint64_t calls_ = 0;  // to help, or to stop
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_THREAD_POOL_H_
