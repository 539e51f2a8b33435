// `scatter_decode_add` and `scatter_decode` for NumPy arrays.
#include <optional>

#include "core/scatter_decode.h"
#include "python/arrays.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

// Sparse payloads, as both functions take them.
struct Payloads {
  Flat values;
  Flat indices;
  std::optional<Flat> row_splits;  // nothing: all entries are of one payload
  std::optional<Flat> weights;
  std::int64_t only_splits[2];

  std::int64_t count() const {
    return row_splits.has_value() ? row_splits->size - 1 : 1;
  }
  const std::int64_t* RowSplits() const {
    return row_splits.has_value() ? row_splits->Read<std::int64_t>()
                                  : only_splits;
  }
  template <typename T>
  const T* Weights() const {
    return weights.has_value() ? weights->Read<T>() : nullptr;
  }
};

Payloads CheckPayloads(const Flat& like, const char* like_name,
                       const py::object& values, const py::object& indices,
                       const py::object& row_splits,
                       const py::object& weights) {
  Payloads payloads{ArrayLike(like, like_name, values, "values"),
                    FlatArray(indices, "indices", DType::kInt32),
                    {},
                    {},
                    {}};
  if (row_splits.is_none()) {
    payloads.only_splits[1] = payloads.values.size;
  } else {
    payloads.row_splits = FlatArray(row_splits, "row_splits", DType::kInt64);
  }
  if (!weights.is_none()) {
    payloads.weights = ArrayLike(like, like_name, weights, "weights");
  }
  if (payloads.values.size != payloads.indices.size) {
    ThrowArgumentError("there are " + std::to_string(payloads.values.size) +
                       " values and " + std::to_string(payloads.indices.size) +
                       " indices; there must be one index per value");
  }
  if (payloads.weights.has_value() &&
      payloads.weights->size != payloads.count()) {
    ThrowArgumentError("there are " + std::to_string(payloads.weights->size) +
                       " weights for " + std::to_string(payloads.count()) +
                       " payloads; there must be one weight per payload");
  }
  return payloads;
}

void RequireDisjointFrom(const Payloads& payloads, const Flat& dense,
                         const char* name) {
  RequireDisjoint(dense, name, payloads.values, "values");
  RequireDisjoint(dense, name, payloads.indices, "indices");
  if (payloads.row_splits.has_value()) {
    RequireDisjoint(dense, name, *payloads.row_splits, "row_splits");
  }
  if (payloads.weights.has_value()) {
    RequireDisjoint(dense, name, *payloads.weights, "weights");
  }
}

void Add(const py::object& accumulator_object, const py::object& values,
         const py::object& indices, const py::object& row_splits,
         const py::object& weights) {
  Flat accumulator =
      FloatArray(accumulator_object, "accumulator", Access::kWrite);
  const Payloads payloads = CheckPayloads(accumulator, "accumulator", values,
                                          indices, row_splits, weights);
  RequireDisjointFrom(payloads, accumulator, "accumulator");
  WithFloatType(accumulator.dtype, [&](auto zero) {
    using T = decltype(zero);
    RunKernel([&](Parallel& threads) {
      return ScatterDecodeAdd(accumulator.Write<T>(), accumulator.size,
                              payloads.values.Read<T>(),
                              payloads.indices.Read<std::int32_t>(),
                              payloads.values.size, payloads.RowSplits(),
                              payloads.count(), payloads.Weights<T>(), threads);
    });
  });
}

// `out` is an array of `size` elements, or None.
py::array DenseSum(const py::object& values_object, const py::object& indices,
                   const py::object& row_splits, const py::object& weights,
                   const py::object& size_object, const py::object& out) {
  const std::int64_t size = WholeNumber(size_object, "size");
  const Flat values = FloatArray(values_object, "values");
  const Payloads payloads = CheckPayloads(values, "values", values_object,
                                          indices, row_splits, weights);
  ThrowUnlessOk(CheckDenseSize(size));
  Flat dense = out.is_none()
                   ? NewArrayLike(values, size)
                   : ArrayLike(values, "values", out, "out", Access::kWrite);
  if (dense.size != size) {
    ThrowArgumentError("out has " + std::to_string(dense.size) +
                       " elements; it must have " + std::to_string(size));
  }
  RequireDisjointFrom(payloads, dense, "out");
  WithFloatType(values.dtype, [&](auto zero) {
    using T = decltype(zero);
    RunKernel([&](Parallel& threads) {
      return ScatterDecode(dense.Write<T>(), size, values.Read<T>(),
                           payloads.indices.Read<std::int32_t>(), values.size,
                           payloads.RowSplits(), payloads.count(),
                           payloads.Weights<T>(), threads);
    });
  });
  return dense.array;
}

}  // namespace

void RegisterScatterDecode(py::module_& module) {
  module.def("scatter_decode_add", &Add, py::arg("accumulator"),
             py::arg("values"), py::arg("indices"),
             py::arg("row_splits") = py::none(),
             py::arg("weights") = py::none());
  module.def("scatter_decode", &DenseSum, py::arg("values"), py::arg("indices"),
             py::arg("row_splits") = py::none(),
             py::arg("weights") = py::none(), py::kw_only(), py::arg("size"),
             py::arg("out") = py::none());
}

}  // namespace fedplug::python
