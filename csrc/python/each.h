// Runs a kernel on every array of a list, with the threads of this process.
#ifndef FEDPLUG_PYTHON_EACH_H_
#define FEDPLUG_PYTHON_EACH_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/parallel.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {

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

#endif  // FEDPLUG_PYTHON_EACH_H_
