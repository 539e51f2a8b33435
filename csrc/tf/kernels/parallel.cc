#include "tf/kernels/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tensorflow/core/platform/threadpool.h"

namespace fedplug {
namespace {

// One call of Run. A pool thread that comes late finds no task left and does
// not touch `task`, which by then may be gone; the counters live as long as
// anyone holds them.
class Batch {
 public:
  Batch(int count, const std::function<void(int)>& task)
      : count_(count), task_(&task) {}

  void WorkUntilNoneIsLeft() {
    for (int i = next_++; i < count_; i = next_++) {
      (*task_)(i);
      MarkOneDone();
    }
  }

  void WaitUntilDone() {
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return done_ == count_; });
  }

 private:
  void MarkOneDone() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++done_ == count_) all_done_.notify_all();
  }

  const int count_;
  const std::function<void(int)>* const task_;
  std::atomic<int> next_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
  int done_ = 0;
};

}  // namespace

IntraOpPool::IntraOpPool(tensorflow::OpKernelContext* context)
    : pool_(context->device()->tensorflow_cpu_worker_threads()->workers),
      max_threads_(
          context->device()->tensorflow_cpu_worker_threads()->num_threads) {}

void IntraOpPool::Run(int count, const std::function<void(int)>& task) {
  const auto batch = std::make_shared<Batch>(count, task);
  for (int helper = 1; helper < std::min(count, max_threads_); ++helper) {
    pool_->Schedule([batch] { batch->WorkUntilNoneIsLeft(); });
  }
  batch->WorkUntilNoneIsLeft();
  batch->WaitUntilDone();
}

}  // namespace fedplug
