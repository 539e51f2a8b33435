// Calls of kernels by the NumPy module: its threads and SIMD level, without the GIL, refusals as exceptions.
#ifndef FEDPLUG_PYTHON_RUN_H_
#define FEDPLUG_PYTHON_RUN_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/base/parallel.h"
#include "core/simd/level.h"
#include "python/arrays.h"
#include "python/gil.h"

namespace fedplug::python {

// One pool per process, started on first use and never joined, because joining
// threads at interpreter shutdown can hang. FEDPLUG_NUM_THREADS sets the number
// of threads. The default is the number of cores.
// REQUIRES: the GIL
// Raises: ConfigError if FEDPLUG_NUM_THREADS is set to anything but an
// integer in [1, 1024]
Parallel& Threads();

// REQUIRES: the GIL
// Raises: ConfigError if FEDPLUG_SIMD is set, but not to a level this
// processor has
SimdLevel RequireSimdLevel();

// Runs kernel(), kernel(threads) or kernel(threads, &non_finite) without the GIL.
//
// REQUIRES: the GIL, kernel touches no Python object
// Raises: the exception of the kernel's refusal
template <typename Kernel>
void RunKernel(const Kernel& kernel) {
  std::int64_t non_finite = 0;
  Status status;
  if constexpr (std::is_invocable_v<Kernel>) {
    const WithoutGil released;
    status = kernel();
  } else {
    Parallel& threads = Threads();
    const WithoutGil released;
    if constexpr (std::is_invocable_v<Kernel, Parallel&>) {
      status = kernel(threads);
    } else {
      status = kernel(threads, &non_finite);
    }
  }
  ThrowUnlessOk(status, non_finite);
}

// Calls task(i, threads) for every array, without the GIL. Small arrays run in
// parallel. Large ones one after the other, each with all threads.
//
// REQUIRES: the GIL, task touches no Python object
template <typename Task>
void ForEach(const std::vector<std::int64_t>& sizes, const Task& task) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 18;
  // Less work takes less time than waking a thread.
  constexpr std::int64_t kWorthThreads = std::int64_t{1} << 15;
  Parallel& threads = Threads();
  const WithoutGil released;
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < kLarge && sizes.size() > 1) {
      small.push_back(i);
    } else {
      task(i, threads);
    }
  }
  if (small.empty()) return;
  Serial serial;
  const std::int64_t total =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  Parallel& pool =
      total < kWorthThreads ? static_cast<Parallel&>(serial) : threads;
  pool.Run(static_cast<int>(small.size()),
           [&](int i) { task(small[static_cast<std::size_t>(i)], serial); });
}

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_RUN_H_
