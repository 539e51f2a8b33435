#include "python/threads.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "core/base/processors.h"
#include "core/base/thread_pool.h"
#include "python/arrays.h"

namespace fedplug::python {
namespace {

constexpr int kMostThreads = 1024;

int WantedThreads() {
  const char* variable = std::getenv("FEDPLUG_NUM_THREADS");
  if (variable == nullptr || *variable == '\0') {
    return std::min(AvailableProcessors(), kMostThreads);
  }
  const std::string text = variable;
  int threads = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), threads);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      threads < 1 || threads > kMostThreads) {
    Throw("ConfigError", "FEDPLUG_NUM_THREADS is '" + text +
                             "'; it must be an integer from 1 to " +
                             std::to_string(kMostThreads));
  }
  return threads;
}

}  // namespace

Parallel& Threads() {
  static ThreadPool* const pool = new ThreadPool(WantedThreads());
  return *pool;
}

}  // namespace fedplug::python
