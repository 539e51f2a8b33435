// Random indices for NumPy arrays.
#include "core/random_indices.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

py::array_t<std::int32_t> Draw(std::int64_t seed, std::int64_t count,
                               std::int64_t size) {
  ThrowUnlessOk(CheckDraw(count, size));
  Parallel& threads = Threads();
  auto indices = NewArrayOf<std::int32_t>(count);
  std::int32_t* const index = indices.mutable_data();
  Status status;
  {
    const WithoutGil released;
    status = DrawIndices(static_cast<std::uint64_t>(seed), count, size, threads,
                         index);
  }
  ThrowUnlessOk(status);
  return indices;
}

}  // namespace

void RegisterRandomIndices(py::module_& module) {
  module.def("draw_indices", &Draw, py::arg("seed"), py::arg("count"),
             py::arg("size"));
}

}  // namespace fedplug::python
