// Tasks shared by threads of any pool.
#ifndef FEDPLUG_CORE_BASE_SHARED_WORK_H_
#define FEDPLUG_CORE_BASE_SHARED_WORK_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace fedplug {

// One job at a time: while it runs, a second caller runs its tasks alone, which
// is correct and, with all cores busy, seldom slower. A caller waits only for
// tasks that have started. If no helper comes, it runs all tasks.
//
// Waking a thread takes a third of a walk over a million elements. Waiting
// threads therefore spin briefly before they sleep: a caller for the last tasks
// of its job, and a helper for the next job.
//
// THREADS: any, for all of it
class SharedWork {
 public:
  // Calls task(0) ... task(count - 1), each exactly once, and returns when all
  // are done. `call_helpers` makes other threads call Help(), soon or never. It
  // may throw. An exception of a task is rethrown to the caller after all
  // started tasks have ended. The others are skipped.
  void Run(int count, const std::function<void(int)>& task,
           const std::function<void()>& call_helpers);

  // Runs tasks of the current Run(), and of later ones while helpers stay
  // awake.
  void Help();

  // Between the two calls, helpers stay awake.
  void BeginAwake() { ++awake_; }
  void EndAwake() { --awake_; }

 private:
  struct Job;

  std::atomic<bool> busy_{false};  // a job is running
  std::atomic<int> awake_{0};      // BeginAwake() without EndAwake()

  // Guards the members below. Spinning threads read the atomic ones without the
  // mutex. Writes hold it.
  std::mutex mutex_;
  std::condition_variable helpers_left_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> jobs_{0};
  std::atomic<int> helpers_{0};  // at the job
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_SHARED_WORK_H_
