// Random numbers and random indices for NumPy arrays.
#include "core/random_numbers.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

template <typename T>
py::array_t<T> Numbers(const py::object& count_object,
                       const py::object& first_object,
                       const py::object& second_object) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t first = WholeNumber(first_object, "first");
  const std::int64_t second = WholeNumber(second_object, "second");
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

py::array Uniform(const py::object& count, const py::object& first,
                  const py::object& second, const py::object& dtype_object) {
  const py::dtype dtype = py::dtype::from_args(dtype_object);
  switch (DTypeOf(dtype)) {
    case DType::kFloat32:
      return Numbers<float>(count, first, second);
    case DType::kFloat64:
      return Numbers<double>(count, first, second);
    default:
      ThrowArgumentError("dtype is " + std::string(py::str(dtype)) +
                         "; it must be float32 or float64");
  }
}

py::array_t<std::int32_t> Draw(const py::object& seed_object,
                               const py::object& count_object,
                               const py::object& size_object) {
  const std::int64_t seed = WholeNumber(seed_object, "seed");
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t size = WholeNumber(size_object, "size");
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
  module.def("random_uniform", &Uniform, py::arg("count"), py::arg("first"),
             py::arg("second"), py::arg("dtype") = py::dtype::of<float>());
  module.def("draw_indices", &Draw, py::arg("seed"), py::arg("count"),
             py::arg("size"));
}

}  // namespace fedplug::python
