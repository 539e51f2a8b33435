// `scatter_decode_add` for NumPy arrays.
#include <optional>

#include "core/scatter_decode.h"
#include "python/arrays.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

void Add(const py::object& accumulator_object, const py::object& values_object,
         const py::object& indices_object, const py::object& row_splits_object,
         const py::object& weights_object) {
  Flat accumulator =
      FloatArray(accumulator_object, "accumulator", Access::kWrite);
  const Flat values =
      ArrayLike(accumulator, "accumulator", values_object, "values");
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  const Flat row_splits =
      FlatArray(row_splits_object, "row_splits", DType::kInt64);
  std::optional<Flat> weights;
  if (!weights_object.is_none())
    weights = ArrayLike(accumulator, "accumulator", weights_object, "weights");

  const std::int64_t payloads = row_splits.size - 1;
  if (values.size != indices.size) {
    ThrowArgumentError("there are " + std::to_string(values.size) +
                       " values and " + std::to_string(indices.size) +
                       " indices; there must be one index per value");
  }
  if (weights.has_value() && weights->size != payloads) {
    ThrowArgumentError("there are " + std::to_string(weights->size) +
                       " weights for " + std::to_string(payloads) +
                       " payloads; there must be one weight per payload");
  }
  RequireDisjoint(accumulator, "accumulator", values, "values");
  RequireDisjoint(accumulator, "accumulator", indices, "indices");
  RequireDisjoint(accumulator, "accumulator", row_splits, "row_splits");
  if (weights.has_value())
    RequireDisjoint(accumulator, "accumulator", *weights, "weights");

  Parallel& threads = Threads();
  Status status;
  WithFloatType(accumulator.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const sum = accumulator.Write<T>();
    const T* const weight = weights.has_value() ? weights->Read<T>() : nullptr;
    const py::gil_scoped_release release;
    status = ScatterDecodeAdd(sum, accumulator.size, values.Read<T>(),
                              indices.Read<std::int32_t>(), values.size,
                              row_splits.Read<std::int64_t>(), payloads, weight,
                              threads);
  });
  ThrowUnlessOk(status);
}

}  // namespace

void RegisterScatterDecode(py::module_& module) {
  module.def("scatter_decode_add", &Add, py::arg("accumulator"),
             py::arg("values"), py::arg("indices"), py::arg("row_splits"),
             py::arg("weights"));
}

}  // namespace fedplug::python
