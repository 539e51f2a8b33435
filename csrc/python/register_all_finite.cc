// `all_finite` and `finite_from_bytes` for NumPy arrays.
#include <optional>

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

// The bytes as values where they lie, if that is aligned.
std::optional<Flat> AsTheyLie(const Flat& data, const py::dtype& dtype,
                              std::int64_t count) {
  const auto* const bytes = data.Read<std::uint8_t>();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes);
  if (address % static_cast<std::uintptr_t>(dtype.alignment()) != 0) return {};
  return Flat{ReadOnlyArray(dtype, count, bytes, data.array), DTypeOf(dtype),
              count};
}

// `out` is an array of as many values of that dtype, or None.
py::array FiniteFromBytes(const py::object& data_object, const py::dtype& dtype,
                          const py::object& out) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  WithFloatType(DTypeOf(dtype), [](auto) {});  // refuses what is none
  const std::int64_t count = data.size / dtype.itemsize();
  if (count * dtype.itemsize() != data.size) {
    Throw("PayloadError", std::to_string(data.size) +
                              " bytes are no whole numbers of " +
                              std::to_string(dtype.itemsize()) + " bytes each");
  }
  std::optional<Flat> values;
  if (out.is_none()) values = AsTheyLie(data, dtype, count);
  const bool in_place = values.has_value();
  if (!in_place) {
    values = NewOrGiven(dtype, count, out);
    RequireDisjoint(data, "data", *values, "out");
  }
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(values->dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* const bytes = data.Read<std::uint8_t>();
    const T* const read = values->Read<T>();
    T* const write = in_place ? nullptr : values->Write<T>();
    const py::gil_scoped_release release;
    finite = in_place ? AllFinite(read, count, threads)
                      : CopyFinite(bytes, count, write, threads);
  });
  if (!finite) Throw("PayloadError", "a raw value is NaN or infinite");
  return values->array;
}

}  // namespace

void RegisterAllFinite(py::module_& module) {
  module.def("all_finite", &IsAllFinite, py::arg("values"));
  module.def("finite_from_bytes", &FiniteFromBytes, py::arg("data"),
             py::arg("dtype"), py::arg("out"));
}

}  // namespace fedplug::python
