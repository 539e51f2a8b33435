// Random numbers and random indices for NumPy arrays.
#include "core/random_numbers.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

template <typename T>
py::array_t<T> Numbers(std::int64_t count, std::int64_t first,
                       std::int64_t second) {
  if (count < 0) {
    ThrowArgumentError("count = " + std::to_string(count) + " is negative");
  }
  Parallel& threads = Threads();
  auto numbers = NewArrayOf<T>(count);
  T* const to = numbers.mutable_data();
  {
    const WithoutGil released;
    DrawNumbers(static_cast<std::uint64_t>(first),
                static_cast<std::uint64_t>(second), count, threads, to);
  }
  return numbers;
}

py::array_t<std::int32_t> Draw(std::int64_t seed, std::int64_t count,
                               std::int64_t size) {
  ThrowUnlessOk(CheckDraw(count, size));
  auto indices = NewArrayOf<std::int32_t>(count);
  RunKernel([&](Parallel& threads) {
    return DrawIndices(static_cast<std::uint64_t>(seed), count, size, threads,
                       indices.mutable_data());
  });
  return indices;
}

}  // namespace

void RegisterRandom(py::module_& module) {
  module.def("random_words", &Numbers<std::uint32_t>, py::arg("count"),
             py::arg("first"), py::arg("second"));
  module.def("random_floats", &Numbers<float>, py::arg("count"),
             py::arg("first"), py::arg("second"));
  module.def("random_doubles", &Numbers<double>, py::arg("count"),
             py::arg("first"), py::arg("second"));
  module.def("draw_indices", &Draw, py::arg("seed"), py::arg("count"),
             py::arg("size"));
}

}  // namespace fedplug::python
