// The kernels by C names, for fedplug_sketch/kernel.py: no TensorFlow in sight.
// Whoever calls has checked shapes and numbers. False where memory was short.
#include <cstdint>
#include <new>

#include "count_sketch.h"

#if defined(__GNUC__)
#define FEDPLUG_SKETCH_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define FEDPLUG_SKETCH_EXPORT extern "C"
#endif

namespace {

template <typename T>
bool Sketch(const T* x, std::int64_t n, const std::uint64_t* keys,
            std::int64_t rows, std::int64_t columns, T* table) {
  for (std::int64_t r = 0; r < rows; ++r) {
    fedplug_sketch::SketchRow(x, n, keys[r], columns, table + r * columns);
  }
  return true;
}

template <typename T>
bool Estimate(const T* table, const std::uint64_t* keys, std::int64_t rows,
              std::int64_t columns, std::int64_t size, T* estimates) try {
  fedplug_sketch::EstimateRange(table, keys, rows, columns, 0, size, estimates);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace

#define FEDPLUG_SKETCH_EXPORTS(T, name)                             \
  FEDPLUG_SKETCH_EXPORT bool count_sketch_##name(                   \
      const T* x, std::int64_t n, const std::uint64_t* keys,        \
      std::int64_t rows, std::int64_t columns, T* table) {          \
    return Sketch(x, n, keys, rows, columns, table);                \
  }                                                                 \
  FEDPLUG_SKETCH_EXPORT bool estimate_##name(                       \
      const T* table, const std::uint64_t* keys, std::int64_t rows, \
      std::int64_t columns, std::int64_t size, T* estimates) {      \
    return Estimate(table, keys, rows, columns, size, estimates);   \
  }
FEDPLUG_SKETCH_EXPORTS(float, float32)
FEDPLUG_SKETCH_EXPORTS(double, float64)
