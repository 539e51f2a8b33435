// Tasks that threads share, whoever these threads belong to. Must not know
// where helpers come from, nor what they do when there is nothing to help with.
#ifndef FEDPLUG_CORE_BASE_SHARED_WORK_H_
#define FEDPLUG_CORE_BASE_SHARED_WORK_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace fedplug {

// One job at a time: while there is one, a second caller runs his tasks by
// himself, which is never wrong and, with every core at work already, seldom
// slower. A caller waits for the tasks that were begun, not for helpers to
// come; so where none comes, he simply runs all the tasks himself.
//
// To wake a thread takes a third of the time of a walk over a million elements.
// So who waits for what will soon be there looks for it a while before he goes
// to sleep: a caller for the last tasks of his job, and, as long as he is to
// stay awake, a helper for the next job.
//
// THREADS: any, for all of it
class SharedWork {
 public:
  // Calls task(0) ... task(count - 1), each exactly once, and returns when all
  // are done. `call_helpers` is to make others call Help(), soon or never; if
  // it throws, fewer come. What a task throws, on whatever thread, is thrown to
  // the caller when every task that was begun has ended; those that were not
  // are left out.
  void Run(int count, const std::function<void(int)>& task,
           const std::function<void()>& call_helpers);

  // Runs tasks with the caller of Run(), if there is one, and of every next one
  // that comes while helpers are to stay awake.
  void Help();

  // From one to the other, helpers stay awake.
  void BeginAwake() { ++awake_; }
  void EndAwake() { --awake_; }

 private:
  struct Job;

  std::atomic<bool> busy_{false};  // somebody's job is running
  std::atomic<int> awake_{0};      // BeginAwake() without EndAwake()

  // Guards what follows. What is atomic of it is looked at without the mutex by
  // who has not gone to sleep yet, and written under it.
  std::mutex mutex_;
  std::condition_variable helpers_left_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> jobs_{0};
  std::atomic<int> helpers_{0};  // at the job
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_SHARED_WORK_H_
