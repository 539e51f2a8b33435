#include "core/base/thread_pool.h"

#include <system_error>

namespace fedplug {

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { HelpWhenCalled(); });
    }
  } catch (const std::system_error&) {
    // The others, and the caller, do the work.
  }
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
  work_.Run(count, task, [this] {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++calls_;
    }
    called_.notify_all();
  });
}

void ThreadPool::HelpWhenCalled() {
  std::uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    called_.wait(lock, [&] { return calls_ != seen; });
    if (stopping_) return;
    seen = calls_;
    lock.unlock();
    work_.Help();
    lock.lock();
  }
}

}  // namespace fedplug
