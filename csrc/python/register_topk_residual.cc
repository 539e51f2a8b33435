// `topk_residual` and the count of non-finite sums for NumPy arrays.
#include <algorithm>

#include "core/topk_residual.h"
#include "python/arrays.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

struct Update {
  Flat delta;
  Flat residual;
};

Update CheckUpdate(const py::object& delta_object,
                   const py::object& residual_object, Access residual_access) {
  Flat delta = FloatArray(delta_object, "delta");
  Flat residual =
      ArrayLike(delta, "delta", residual_object, "residual", residual_access);
  if (delta.size != residual.size) {
    ThrowArgumentError("delta has " + std::to_string(delta.size) +
                       " elements and residual has " +
                       std::to_string(residual.size) +
                       "; they must have the same number");
  }
  return {std::move(delta), std::move(residual)};
}

py::tuple TopK(const py::object& delta_object,
               const py::object& residual_object, std::int64_t k, bool drop) {
  Update update = CheckUpdate(delta_object, residual_object, Access::kWrite);
  RequireDisjoint(update.delta, "delta", update.residual, "residual");
  const std::int64_t n = update.delta.size;
  const std::int64_t chosen = std::max<std::int64_t>(0, std::min(k, n));
  Flat values = NewArrayLike(update.delta, chosen);
  py::array_t<std::int32_t> indices(chosen);
  std::int32_t* const index = indices.mutable_data();
  Parallel& threads = Threads();
  std::int64_t non_finite = 0;
  Status status;
  WithFloatType(update.delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const delta = update.delta.Read<T>();
    T* const residual = update.residual.Write<T>();
    T* const value = values.Write<T>();
    const py::gil_scoped_release release;
    status =
        TopKResidual(delta, residual, residual, n, k,
                     drop ? NonFinitePolicy::kDrop : NonFinitePolicy::kError,
                     threads, value, index, &non_finite);
  });
  ThrowUnlessOk(status, non_finite);
  return py::make_tuple(values.array, indices);
}

std::int64_t Count(const py::object& delta_object,
                   const py::object& residual_object) {
  const Update update =
      CheckUpdate(delta_object, residual_object, Access::kRead);
  Parallel& threads = Threads();
  std::int64_t count = 0;
  WithFloatType(update.delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const delta = update.delta.Read<T>();
    const T* const residual = update.residual.Read<T>();
    const py::gil_scoped_release release;
    count = CountNonFinite(delta, residual, update.delta.size, threads);
  });
  return count;
}

}  // namespace

void RegisterTopKResidual(py::module_& module) {
  module.def("topk_residual", &TopK, py::arg("delta"), py::arg("residual"),
             py::arg("k"), py::arg("drop"));
  module.def("count_nonfinite", &Count, py::arg("delta"), py::arg("residual"));
}

}  // namespace fedplug::python
