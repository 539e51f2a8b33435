// `all_finite` for NumPy arrays.
#include "core/all_finite.h"
#include "python/arrays.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

bool IsAllFinite(const py::object& values_object) {
  const Flat values = FloatArray(values_object, "values");
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const py::gil_scoped_release release;
    finite = AllFinite(read, values.size, threads);
  });
  return finite;
}

}  // namespace

void RegisterAllFinite(py::module_& module) {
  module.def("all_finite", &IsAllFinite, py::arg("values"));
}

}  // namespace fedplug::python
