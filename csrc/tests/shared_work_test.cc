// Tests shared work with helpers that come late, never, or stay, as a foreign
// pool may have. thread_pool_test tests our own pool.
#include "core/base/shared_work.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/test.h"

namespace fedplug::testing {
namespace {

int CountTasks(SharedWork& work, int count, const std::function<void()>& call) {
  std::atomic<int> calls{0};
  work.Run(count, [&](int) { ++calls; }, call);
  return calls;
}

TEST(SharedWork, IsDoneByTheCallerAloneIfNoHelperComes) {
  SharedWork work;
  EXPECT_EQ(CountTasks(work, 7, [] {}), 7);
  EXPECT_EQ(CountTasks(work, 0, [] {}), 0);
}

TEST(SharedWork, ALateHelperFindsNothingAndLeaves) {
  SharedWork work;
  EXPECT_EQ(CountTasks(work, 7, [] {}), 7);
  work.Help();
}

TEST(SharedWork, AHelperIsWaitedForUntilHisTasksAreDone) {
  SharedWork work;
  std::thread helper;
  std::atomic<int> begun{0};
  std::atomic<int> done{0};
  work.Run(
      2,
      [&](int) {
        ++begun;
        while (begun < 2) std::this_thread::yield();  // one each
        ++done;
      },
      [&] { helper = std::thread([&] { work.Help(); }); });
  EXPECT_EQ(done.load(), 2);
  helper.join();
}

TEST(SharedWork, AHelperOfOneJobMayHelpWithTheNextOnes) {
  SharedWork work;
  std::vector<std::thread> helpers;
  work.BeginAwake();
  int tasks = 0;
  for (int job = 0; job < 100; ++job) {
    tasks += CountTasks(work, 5, [&] {
      if (job % 20 == 0) helpers.emplace_back([&] { work.Help(); });
    });
  }
  work.EndAwake();
  for (std::thread& helper : helpers) helper.join();
  EXPECT_EQ(tasks, 500);
}

TEST(SharedWork, AJobWithinATaskIsRunByTheThreadOfTheTask) {
  SharedWork work;
  std::atomic<int> inner{0};
  std::thread helper;
  work.Run(
      3, [&](int) { inner += CountTasks(work, 5, [] {}); },
      [&] { helper = std::thread([&] { work.Help(); }); });
  EXPECT_EQ(inner.load(), 15);
  helper.join();
}

// The exception of Run, "" if there is none.
std::string ThrownBy(SharedWork& work, int count,
                     const std::function<void(int)>& task,
                     const std::function<void()>& call) {
  try {
    work.Run(count, task, call);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(SharedWork, RethrowsErrorsOfTheCallerAndRunsTheNextJob) {
  SharedWork work;
  const auto fail = [](int i) {
    if (i == 2) throw std::runtime_error("task 2");
  };
  for (const int count : {3, 7}) {
    EXPECT_EQ(ThrownBy(work, count, fail, [] {}), std::string("task 2"));
    EXPECT_EQ(CountTasks(work, 7, [] {}), 7);
  }
}

TEST(SharedWork, RethrowsErrorsOfHelpersWhenAllHaveEnded) {
  SharedWork work;
  std::thread helper;
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  const auto caller = std::this_thread::get_id();
  const auto task = [&](int) {
    ++begun;
    while (begun < 2) std::this_thread::yield();  // one each
    if (std::this_thread::get_id() != caller) {
      throw std::runtime_error("of the helper");
    }
    ++ended;
  };
  EXPECT_EQ(ThrownBy(work, 2, task,
                     [&] { helper = std::thread([&] { work.Help(); }); }),
            std::string("of the helper"));
  EXPECT_EQ(ended.load(), 1);
  helper.join();
  EXPECT_EQ(CountTasks(work, 7, [] {}), 7);
}

TEST(SharedWork, IsDoneByTheCallerIfHelpersCannotBeCalled) {
  SharedWork work;
  EXPECT_EQ(CountTasks(work, 7, [] { throw std::bad_alloc(); }), 7);
  EXPECT_EQ(CountTasks(work, 7, [] {}), 7);
}

}  // namespace
}  // namespace fedplug::testing
