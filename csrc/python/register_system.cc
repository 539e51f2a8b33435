// The system of the kernels for Python: `num_threads`, `simd_level`, and `empty`, which allocates from the
// pool.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/thread_pool.h"
#include "python/arrays.h"
#include "python/run.h"

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

SimdLevel RequireSimdLevel() {
  SimdLevel level;
  const Status status = FindSimdLevel(&level);
  if (!status.ok()) Throw("ConfigError", status.message());
  return level;
}

void RegisterSystem(py::module_& module) {
  module.def("num_threads", [] { return Threads().MaxThreads(); });
  module.def("empty",
             [](const std::vector<py::ssize_t>& shape, const py::dtype& dtype) {
               return NewArrayOfShape(dtype, shape);
             });
  module.def("simd_level", [] { return NameOf(RequireSimdLevel()); });
}

}  // namespace fedplug::python
