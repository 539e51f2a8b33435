#include "tf/parallel.h"

#include <algorithm>
#include <atomic>

#include "core/base/shared_work.h"
#include "tensorflow/core/platform/threadpool.h"

namespace fedplug {

// A thread of the pool may arrive after the op has ended, and finds no work.
// The team therefore lives until all have arrived.
struct IntraOpPool::Team {
  SharedWork work;
  std::atomic<int> members{0};  // threads that were called and have not left

  static void Call(const std::shared_ptr<Team>& team, int helpers,
                   tensorflow::thread::ThreadPool* pool) {
    while (team->members < helpers) {
      ++team->members;
      pool->Schedule([team] {
        team->work.Help();
        --team->members;
      });
    }
  }
};

IntraOpPool::IntraOpPool(tensorflow::OpKernelContext* context)
    : pool_(context->device()->tensorflow_cpu_worker_threads()->workers),
      max_threads_(
          context->device()->tensorflow_cpu_worker_threads()->num_threads),
      team_(std::make_shared<Team>()) {}

void IntraOpPool::Run(int count, const std::function<void(int)>& task) {
  const int helpers = std::min(count, max_threads_) - 1;
  team_->work.Run(count, task,
                  [this, helpers] { Team::Call(team_, helpers, pool_); });
}

void IntraOpPool::BeginAwake(int helpers) {
  team_->work.BeginAwake();
  Team::Call(team_, std::min(helpers, max_threads_ - 1), pool_);
}
void IntraOpPool::EndAwake() { team_->work.EndAwake(); }

}  // namespace fedplug
