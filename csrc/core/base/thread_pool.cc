#include "core/base/thread_pool.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/fork.h"
#include "core/base/shared_work.h"

namespace fedplug {

// The threads of one process.
class ThreadPool::Team {
 public:
  explicit Team(int threads) : forks_(ForksSoFar()) {
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    try {
      for (int i = 1; i < threads; ++i) {
        workers_.emplace_back([this] { HelpWhenCalled(); });
      }
    } catch (const std::exception&) {  // std::system_error, std::bad_alloc
      // The others, and the caller, do the work.
    }
  }

  // REQUIRES: IsHere()
  ~Team() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    called_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  bool IsHere() const { return forks_ == ForksSoFar(); }

  int Size() const { return static_cast<int>(workers_.size()) + 1; }

  SharedWork& work() { return work_; }

  // Wakes helpers until `count` are awake.
  void Call(int helpers) {
    int missing;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++times_called_;
      missing = std::min(helpers, Size() - 1) - helpers_;
      if (missing <= 0) return;
      calls_ += missing;
      helpers_ += missing;
    }
    for (; missing > 0; --missing) called_.notify_one();
  }

 private:
  void HelpWhenCalled() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      called_.wait(lock, [this] { return calls_ > 0 || stopping_; });
      if (stopping_) return;
      --calls_;
      std::uint64_t seen;
      do {  // it was counted on while it left
        seen = times_called_;
        lock.unlock();
        work_.Help();
        lock.lock();
      } while (times_called_ != seen);
      --helpers_;
    }
  }

  const std::uint64_t forks_;  // before it was begun

  SharedWork work_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable called_;
  int calls_ = 0;    // to help, not yet answered
  int helpers_ = 0;  // that were called and have not left
  std::uint64_t times_called_ = 0;
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads), team_(new Team(threads)) {}

ThreadPool::~ThreadPool() {
  Team* const team = team_;
  if (team->IsHere()) delete team;
}

int ThreadPool::MaxThreads() const { return Here().Size(); }

void ThreadPool::Run(int count, const std::function<void(int)>& task) {
  Team& team = Here();
  team.work().Run(count, task, [&] { team.Call(count - 1); });
}

void ThreadPool::BeginAwake(int helpers) {
  Team& team = Here();
  team.work().BeginAwake();
  if (helpers > 0) team.Call(helpers);
}

void ThreadPool::EndAwake() { Here().work().EndAwake(); }

ThreadPool::Team& ThreadPool::Here() const {
  Team* team = team_.load(std::memory_order_acquire);
  if (team->IsHere()) return *team;
  auto fresh = std::make_unique<Team>(threads_);
  // Only the first of concurrent threads sets it.
  if (!team_.compare_exchange_strong(team, fresh.get())) return *team;
  return *fresh.release();
}

}  // namespace fedplug
