#include "core/base/shared_work.h"

#include <chrono>
#include <exception>
#include <thread>

namespace fedplug {
namespace {

// Spins until `done()`, for a bounded time. It yields the core, because on a
// busy machine the awaited thread may need it.
template <typename Done>
void LookFor(const Done& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kAtMost{50};
  const Clock::time_point end = Clock::now() + kAtMost;
  while (!done() && Clock::now() < end) std::this_thread::yield();
}

}  // namespace

struct SharedWork::Job {
  const int count;
  const std::function<void(int)>& task;
  std::atomic<int> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure{};  // the first, written by who has set `failed`

  void RunRemaining() noexcept {
    try {
      while (!failed) {
        const int i = next.fetch_add(1);
        if (i >= count) return;
        task(i);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }

  // REQUIRES: no thread works on the job any more
  void RethrowFailure() const {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
};

void SharedWork::Run(int count, const std::function<void(int)>& task,
                     const std::function<void()>& call_helpers) {
  Job job{count, task};
  if (count <= 1 || busy_.exchange(true)) {
    job.RunRemaining();
    job.RethrowFailure();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = &job;
    ++jobs_;
  }
  try {
    call_helpers();
  } catch (...) {
    // Without memory to call helpers, the caller runs all tasks.
  }
  job.RunRemaining();
  // With `job_` cleared no helper joins. The active ones finish their current
  // tasks.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = nullptr;
  }
  const auto alone = [this] { return helpers_ == 0; };
  LookFor(alone);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    helpers_left_.wait(lock, alone);
  }
  busy_ = false;
  job.RethrowFailure();
}

void SharedWork::Help() {
  std::uint64_t seen;
  const auto called = [&] { return jobs_ != seen; };
  std::unique_lock<std::mutex> lock(mutex_);
  do {
    seen = jobs_;
    if (job_ != nullptr) {
      Job* const job = job_;
      ++helpers_;
      lock.unlock();
      job->RunRemaining();
      lock.lock();
      if (--helpers_ == 0) helpers_left_.notify_one();
    }
    lock.unlock();
    LookFor([&] { return called() || awake_ == 0; });
    lock.lock();
  } while (called());
}

}  // namespace fedplug
