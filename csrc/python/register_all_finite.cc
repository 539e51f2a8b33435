// `all_finite` and `finite_from_bytes` for NumPy arrays.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/all_finite.h"
#include "python/arrays.h"
#include "python/decoding.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {

py::array FiniteValues(const Bytes& bytes, const py::dtype& dtype,
                       std::optional<Flat> place) {
  const std::int64_t count = bytes.size / dtype.itemsize();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data);
  const auto alignment = static_cast<std::uintptr_t>(dtype.alignment());
  const bool as_they_lie = !place.has_value() && address % alignment == 0;
  if (as_they_lie) {
    place = Flat{ReadOnlyArray(dtype, count, bytes.data, bytes.owner),
                 DTypeOf(dtype), count};
  } else if (!place.has_value()) {
    place = NewArray(dtype, count);
  }
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(place->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = place->Read<T>();
    T* const write = as_they_lie ? nullptr : place->Write<T>();
    const WithoutGil released;
    finite = as_they_lie ? AllFinite(read, count, threads)
                         : CopyFinite(bytes.data, count, write, threads);
  });
  if (!finite) Throw("PayloadError", "a raw value is NaN or infinite");
  return place->array;
}

namespace {

bool IsAllFinite(const py::object& values_object) {
  const Flat values = FloatArray(values_object, "values");
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const WithoutGil released;
    finite = AllFinite(read, values.size, threads);
  });
  return finite;
}

// `out` is an array of as many values of that dtype, or None.
py::array FiniteFromBytes(const py::object& data_object, const py::dtype& dtype,
                          const py::object& out) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  WithFloatType(DTypeOf(dtype), [](auto) {});  // refuses other dtypes
  const std::int64_t count = data.size / dtype.itemsize();
  if (count * dtype.itemsize() != data.size) {
    Throw("PayloadError", std::to_string(data.size) +
                              " bytes are no whole numbers of " +
                              std::to_string(dtype.itemsize()) + " bytes each");
  }
  std::optional<Flat> place;
  if (!out.is_none()) {
    place = NewOrGiven(dtype, count, out);
    RequireDisjoint(data, "data", *place, "out");
  }
  return FiniteValues(data.AsBytes(), dtype, std::move(place));
}

}  // namespace

void RegisterAllFinite(py::module_& module) {
  module.def("all_finite", &IsAllFinite, py::arg("values"));
  module.def("finite_from_bytes", &FiniteFromBytes, py::arg("data"),
             py::arg("dtype"), py::arg("out"));
}

}  // namespace fedplug::python
