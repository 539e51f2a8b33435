// Random numbers for NumPy arrays.
#include "core/random_numbers.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

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

}  // namespace

void RegisterRandomNumbers(py::module_& module) {
  module.def("random_words", &Numbers<std::uint32_t>, py::arg("count"),
             py::arg("first"), py::arg("second"));
  module.def("random_floats", &Numbers<float>, py::arg("count"),
             py::arg("first"), py::arg("second"));
  module.def("random_doubles", &Numbers<double>, py::arg("count"),
             py::arg("first"), py::arg("second"));
}

}  // namespace fedplug::python
