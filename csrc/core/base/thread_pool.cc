#include "core/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/shared_work.h"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace fedplug {
namespace {

std::atomic<std::uint64_t> forks{0};

bool Count() {
#if defined(__unix__) || defined(__APPLE__)
  // Asking for the process id would cost a system call each time.
  pthread_atfork(nullptr, nullptr, [] { ++forks; });
#endif
  return true;
}

}  // namespace

std::uint64_t ForksSoFar() {
  static const bool counting = Count();
  static_cast<void>(counting);
  return forks.load(std::memory_order_relaxed);
}

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

namespace {

// Rounded up. 0 is none.
int Quota(std::int64_t microseconds, std::int64_t period) {
  if (microseconds <= 0 || period <= 0) return 0;
  const std::int64_t processors =
      microseconds / period + (microseconds % period > 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(processors, INT32_MAX));
}

int SmallerQuota(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

// The text of a small file. Empty if it cannot be read. C's files, as the
// streams of C++ crash where the library is linked with a libstdc++ of its own
// (seen with GCC 13).
std::string ReadFile(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return "";
  std::string text;
  char buffer[4096];
  while (const std::size_t bytes = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, bytes);
  }
  std::fclose(file);
  return text;
}

// cpu.max is "max 100000" or "50000 100000".
int QuotaOfVersion2(const std::string& group) {
  const std::string text = ReadFile(group + "/cpu.max");
  char* rest = nullptr;
  const std::int64_t microseconds = std::strtoll(text.c_str(), &rest, 10);
  return Quota(microseconds, std::strtoll(rest, nullptr, 10));
}

// The quota is -1 where there is none.
int QuotaOfVersion1(const std::string& group) {
  const auto number_in = [&](const char* name) {
    return std::strtoll(ReadFile(group + name).c_str(), nullptr, 10);
  };
  return Quota(number_in("/cpu.cfs_quota_us"), number_in("/cpu.cfs_period_us"));
}

// The smallest quota of a group and its parents. A container often sees its own
// group as the root.
template <typename QuotaOf>
int SmallestQuota(const std::string& mount, std::string path,
                  const QuotaOf& quota_of) {
  int quota = quota_of(mount);
  while (path.size() > 1) {
    quota = SmallerQuota(quota, quota_of(mount + path));
    path.resize(path.rfind('/'));
  }
  return quota;
}

bool NamesController(const std::string& controllers, const std::string& name) {
  const std::string list = "," + controllers + ",";
  return list.find("," + name + ",") != std::string::npos;
}

}  // namespace

int ProcessorQuota(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  int quota = 0;
  // Lines "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1).
  const std::string groups = ReadFile(root + "/proc/self/cgroup");
  for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end + 1) {
    end = std::min(groups.find('\n', begin), groups.size());
    const std::string line = groups.substr(begin, end - begin);
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(":/", first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      quota = SmallerQuota(quota, SmallestQuota(mount, path, QuotaOfVersion2));
    } else if (NamesController(controllers, "cpu")) {
      quota = SmallerQuota(
          quota, SmallestQuota(mount + "/cpu", path, QuotaOfVersion1));
    }
  }
  return quota;
}

int AvailableProcessors() {
  // Follows the CPU affinity, where there is one. 0 is "not known".
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, SmallerQuota(processors, ProcessorQuota("")));
}

}  // namespace fedplug
