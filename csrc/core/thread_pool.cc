#include "core/thread_pool.h"

#include <atomic>

namespace fedplug {

struct ThreadPool::Job {
  const int count;
  const std::function<void(int)>& task;
  std::atomic<int> next{0};

  void RunRemaining() {
    for (int i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(i);
  }
};

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  job_posted_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int count, const std::function<void(int)>& task) {
  std::unique_lock<std::mutex> mine(one_job_, std::try_to_lock);
  if (count <= 1 || workers_.empty() || !mine.owns_lock()) {
    Serial().Run(count, task);
    return;
  }
  Job job{count, task};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = &job;
    ++jobs_posted_;
  }
  job_posted_.notify_all();
  job.RunRemaining();
  // With `job_` cleared no worker enters any more; those inside are finishing
  // the tasks they have begun.
  std::unique_lock<std::mutex> lock(mutex_);
  job_ = nullptr;
  workers_left_.wait(lock, [this] { return workers_inside_ == 0; });
}

void ThreadPool::Work() {
  std::uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    job_posted_.wait(lock, [&] {
      return stopping_ || (job_ != nullptr && jobs_posted_ != seen);
    });
    if (stopping_) return;
    seen = jobs_posted_;
    Job* const job = job_;
    ++workers_inside_;
    lock.unlock();
    job->RunRemaining();
    lock.lock();
    if (--workers_inside_ == 0) workers_left_.notify_one();
  }
}

}  // namespace fedplug
