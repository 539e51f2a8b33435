// The kernels with C linkage, for fedplug_sketch/kernel.py. The caller has
// checked shapes and numbers. They return false if allocation fails.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "count_sketch.h"

#if defined(__GNUC__)
#define FEDPLUG_SKETCH_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define FEDPLUG_SKETCH_EXPORT extern "C"
#endif

namespace {

// Calls task(0) ... task(count - 1), each once, on at most the given number of
// threads. On fewer if the system cannot start more.
template <typename Task>
void Run(std::int64_t count, std::int64_t threads, const Task& task) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t t = next++; t < count; t = next++) task(t);
  };
  std::vector<std::thread> helpers;
  try {
    while (static_cast<std::int64_t>(helpers.size()) + 1 <
           std::min(count, threads)) {
      helpers.emplace_back(work);
    }
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

template <typename T>
bool Sketch(const T* x, std::int64_t n, const std::uint64_t* keys,
            std::int64_t rows, std::int64_t columns, std::int64_t threads,
            T* table) {
  const std::int64_t parts =
      fedplug_sketch::ColumnParts<T>(n, static_cast<int>(threads));
  Run(rows * parts, threads, [&](std::int64_t task) {
    const std::int64_t r = task / parts, part = task % parts;
    fedplug_sketch::SketchColumns(
        x, n, keys[r], columns, columns * part / parts,
        columns * (part + 1) / parts, table + r * columns);
  });
  return true;
}

template <typename T>
bool Estimate(const T* table, const std::uint64_t* keys, std::int64_t rows,
              std::int64_t columns, std::int64_t size, std::int64_t threads,
              T* estimates) {
  constexpr std::int64_t kRange = 1 << 16;  // elements
  std::atomic<bool> done{true};
  Run((size + kRange - 1) / kRange, threads, [&](std::int64_t range) {
    try {
      const std::int64_t begin = range * kRange;
      fedplug_sketch::EstimateRange(table, keys, rows, columns, begin,
                                    std::min(size, begin + kRange), estimates);
    } catch (const std::bad_alloc&) {
      done = false;
    }
  });
  return done;
}

}  // namespace

#define FEDPLUG_SKETCH_EXPORTS(T, name)                                    \
  FEDPLUG_SKETCH_EXPORT bool count_sketch_##name(                          \
      const T* x, std::int64_t n, const std::uint64_t* keys,               \
      std::int64_t rows, std::int64_t columns, std::int64_t threads,       \
      T* table) {                                                          \
    return Sketch(x, n, keys, rows, columns, threads, table);              \
  }                                                                        \
  FEDPLUG_SKETCH_EXPORT bool estimate_##name(                              \
      const T* table, const std::uint64_t* keys, std::int64_t rows,        \
      std::int64_t columns, std::int64_t size, std::int64_t threads,       \
      T* estimates) {                                                      \
    return Estimate(table, keys, rows, columns, size, threads, estimates); \
  }
FEDPLUG_SKETCH_EXPORTS(float, float32)
FEDPLUG_SKETCH_EXPORTS(double, float64)
