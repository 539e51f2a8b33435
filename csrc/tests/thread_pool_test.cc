// The pool: every task once, from any number of callers, also from inside a
// task.
#include "core/base/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

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

// With pauses that are shorter and longer than the workers stay awake.
TEST(ThreadPool, RunsOneJobAfterTheOtherWhileItIsKeptAwake) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int call = 0; call < 10; ++call) {
      const KeepAwake awake(pool);
      for (int round = 0; round < 30; ++round) {
        EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(40 * call));
      EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
    }
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

TEST(ThreadPool, MayBeUsedFromInsideATask) {
  ThreadPool pool(2);
  std::atomic<int> total{0};
  pool.Run(3, [&](int) { pool.Run(5, [&](int) { ++total; }); });
  EXPECT_EQ(total.load(), 15);
}

TEST(ThreadPool, ThrowsWhatATaskThrowsAndGoesOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 100; ++round) {
    bool thrown = false;
    try {
      pool.Run(9, [&](int i) {
        if (i % 3 == round % 3) throw std::runtime_error("a task");
      });
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(CountCalls(pool, 7), std::vector<int>(7, 1));
  }
}

#ifdef __GLIBC__
TEST(ThreadPool, WorksWithTheThreadsThatCouldBeStarted) {
  pthread_attr_t usual, huge;
  pthread_getattr_default_np(&usual);
  pthread_getattr_default_np(&huge);
  pthread_attr_setstacksize(&huge, std::size_t{1} << 50);  // nobody has that
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
