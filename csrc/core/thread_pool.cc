#include "core/thread_pool.h"

#include <chrono>

namespace fedplug {
namespace {

// Waits until `done()`, but not long. Whoever else wants the core has it: on a
// busy machine that is the very thread that is waited for.
template <typename Done>
void LookFor(const Done& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kAtMost{50};
  const Clock::time_point end = Clock::now() + kAtMost;
  while (!done() && Clock::now() < end) std::this_thread::yield();
}

}  // namespace

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
    ++calls_;
  }
  called_.notify_all();
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
    ++calls_;
  }
  called_.notify_all();
  job.RunRemaining();
  // With `job_` cleared no worker enters any more; those inside are finishing
  // the tasks they have begun.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = nullptr;
  }
  const auto none_inside = [this] { return workers_inside_ == 0; };
  LookFor(none_inside);
  std::unique_lock<std::mutex> lock(mutex_);
  workers_left_.wait(lock, none_inside);
}

void ThreadPool::Work() {
  std::uint64_t seen = 0;
  const auto called = [&] { return calls_ != seen; };
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    called_.wait(lock, called);
    if (stopping_) return;
    seen = calls_;
    if (job_ != nullptr) {
      Job* const job = job_;
      ++workers_inside_;
      lock.unlock();
      job->RunRemaining();
      lock.lock();
      if (--workers_inside_ == 0) workers_left_.notify_one();
    }
    if (awake_ > 0) {
      lock.unlock();
      LookFor([&] { return called() || awake_ == 0; });
      lock.lock();
    }
  }
}

}  // namespace fedplug
