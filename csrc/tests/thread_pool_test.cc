// The pool: every task once, from any number of callers, and in a forked child.
// shared_work_test has tasks that fail, and work inside a task.
#include "core/base/thread_pool.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/test.h"

namespace fedplug::testing {
namespace {

std::vector<int> CountCalls(ThreadPool& pool, int count) {
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
  pool.Run(count, [&](int i) { ++calls[static_cast<std::size_t>(i)]; });
  return {calls.begin(), calls.end()};
}

TEST(ThreadPool, RunsEveryTaskExactlyOnceAndReturnsWhenAllAreDone) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.MaxThreads(), threads);
    for (int round = 0; round < 300; ++round) {
      const int count = round % 11;
      EXPECT_EQ(CountCalls(pool, count),
                std::vector<int>(static_cast<std::size_t>(count), 1));
    }
  }
}

// With pauses shorter and longer than workers stay awake.
TEST(ThreadPool, RunsOneJobAfterTheOtherWhileItIsKeptAwake) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int call = 0; call < 10; ++call) {
      const KeepAwake awake(pool, call % 4);
      for (int round = 0; round < 30; ++round) {
        EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(40 * call));
      EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
    }
  }
}

// As many at once as there are tasks, also after earlier calls.
TEST(ThreadPool, HelpersCalledWithoutWorkReturn) {
  ThreadPool pool(5);
  for (int call = 0; call < 50; ++call) {
    const KeepAwake awake(pool, call % 7);
    std::this_thread::sleep_for(std::chrono::microseconds(10 * (call % 11)));
    const int count = 2 + call % 4;
    std::atomic<int> begun{0};
    pool.Run(count, [&](int) {
      ++begun;
      while (begun < count) std::this_thread::yield();
    });
    EXPECT_EQ(begun.load(), count);
  }
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      const KeepAwake awake(pool);
      for (int round = 0; round < 200; ++round) {
        for (const int calls : CountCalls(pool, 7)) total += calls;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 200 * 7);
}

// The thread sanitizer does not follow a process with threads into its child.
#ifndef __SANITIZE_THREAD__

// The result of a child: true is 0. A hanging child is killed.
template <typename Check>
bool HoldsInForkedChild(const Check& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(check() ? 0 : 1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// Whether two tasks ran at the same time, on two threads.
bool RunsTwoAtOnce(ThreadPool& pool) {
  std::atomic<int> here{0};
  std::atomic<bool> met{true};
  pool.Run(2, [&](int) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::seconds(5);
    ++here;
    while (here < 2 && Clock::now() < end) std::this_thread::yield();
    if (here < 2) met = false;
  });
  return met;
}

TEST(ThreadPool, StartsThreadsInAForkedChild) {
  ThreadPool pool(3);
  EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
  EXPECT_TRUE(HoldsInForkedChild([&] {
    return pool.MaxThreads() == 3 && RunsTwoAtOnce(pool) &&
           HoldsInForkedChild([&] { return RunsTwoAtOnce(pool); });
  }));
  EXPECT_TRUE(RunsTwoAtOnce(pool));
}

TEST(ThreadPool, EndsInAForkedChildThatNeverUsedIt) {
  auto pool = std::make_unique<ThreadPool>(3);
  EXPECT_EQ(CountCalls(*pool, 7), std::vector<int>(7, 1));
  EXPECT_TRUE(HoldsInForkedChild([&] {
    pool.reset();
    return true;
  }));
}

// The address sanitizer's own locks stay behind, now and then, where another
// thread takes memory at that moment.
#ifndef __SANITIZE_ADDRESS__
// Whatever other threads hold or wait for at that moment.
TEST(ThreadPool, MayBeForkedFromWhileOthersUseIt) {
  ThreadPool pool(3);
  std::atomic<bool> enough{false};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 2; ++caller) {
    callers.emplace_back([&] {
      const KeepAwake awake(pool);
      while (!enough) CountCalls(pool, 7);
    });
  }
  for (int round = 0; round < 30; ++round) {
    EXPECT_TRUE(HoldsInForkedChild([&] {
      return CountCalls(pool, 7) == std::vector<int>(7, 1) &&
             RunsTwoAtOnce(pool);
    }));
  }
  enough = true;
  for (std::thread& caller : callers) caller.join();
}
#endif  // __SANITIZE_ADDRESS__

#endif  // __SANITIZE_THREAD__

#ifdef __GLIBC__
TEST(ThreadPool, WorksWithTheThreadsThatCouldBeStarted) {
  pthread_attr_t usual, huge;
  pthread_getattr_default_np(&usual);
  pthread_getattr_default_np(&huge);
  pthread_attr_setstacksize(&huge,
                            std::size_t{1} << 50);  // more than any machine has
  EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
  ThreadPool pool(4);
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(pool.MaxThreads(), 1);
  EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
}
#endif

}  // namespace
}  // namespace fedplug::testing
