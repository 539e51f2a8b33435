#include "tf/kernels/parallel.h"

#include <algorithm>
#include <atomic>

#include "core/base/shared_work.h"
#include "tensorflow/core/platform/threadpool.h"

namespace fedplug {

// A thread of the pool may come when the op has long ended; it finds nothing to
// do. So the team lives as long as anyone is still to come.
struct IntraOpPool::Team {
  SharedWork work;
  std::atomic<int> members{0};  // threads that were called and have not left
};

IntraOpPool::IntraOpPool(tensorflow::OpKernelContext* context)
    : pool_(context->device()->tensorflow_cpu_worker_threads()->workers),
      max_threads_(
          context->device()->tensorflow_cpu_worker_threads()->num_threads),
      team_(std::make_shared<Team>()) {}

void IntraOpPool::Run(int count, const std::function<void(int)>& task) {
  const int helpers = std::min(count, max_threads_) - 1;
  team_->work.Run(count, task, [this, helpers] {
    while (team_->members < helpers) {
      ++team_->members;
      pool_->Schedule([team = team_] {
        team->work.Help();
        --team->members;
      });
    }
  });
}

void IntraOpPool::BeginAwake() { team_->work.BeginAwake(); }
void IntraOpPool::EndAwake() { team_->work.EndAwake(); }

}  // namespace fedplug
