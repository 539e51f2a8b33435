// Entries of sums at given places, for NumPy arrays.
#include <optional>

#include "core/gather_sum.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

void RequireSameSize(const Flat& delta, const Flat& residual) {
  if (delta.size == residual.size) return;
  ThrowArgumentError("delta has " + std::to_string(delta.size) +
                     " elements but residual has " +
                     std::to_string(residual.size) + "; the two must be equal");
}

py::array Gather(const py::object& delta_object,
                 const py::object& residual_object,
                 const py::object& indices_object) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  std::optional<Flat> residual;
  if (!residual_object.is_none()) {
    residual = ArrayLike(delta, "delta", residual_object, "residual");
    RequireSameSize(delta, *residual);
  }
  Flat values = NewArrayLike(delta, indices.size);
  Parallel& threads = Threads();
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = delta.Read<T>();
    const T* const before =
        residual.has_value() ? residual->Read<T>() : nullptr;
    const auto* const index = indices.Read<std::int32_t>();
    T* const value = values.Write<T>();
    Status status;
    {
      const WithoutGil released;
      status = GatherSum(read, before, delta.size, index, indices.size, threads,
                         value);
    }
    ThrowUnlessOk(status);
  });
  return values.array;
}

py::array Take(const py::object& delta_object,
               const py::object& residual_object,
               const py::object& indices_object,
               const py::object& residual_out) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  ResidualUpdate residual =
      CheckResidual(delta, "delta", residual_object, "residual", residual_out,
                    "residual_out");
  RequireDisjoint(indices, "indices", residual.out,
                  residual.InPlace() ? "residual" : "residual_out");
  Flat values = NewArrayLike(delta, indices.size);
  Parallel& threads = Threads();
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = delta.Read<T>();
    const T* const before = residual.Read<T>();
    T* const kept = residual.out.Write<T>();
    const auto* const index = indices.Read<std::int32_t>();
    T* const value = values.Write<T>();
    std::int64_t non_finite = 0;
    Status status;
    {
      const WithoutGil released;
      status = TakeFromSum(read, before, kept, delta.size, index, indices.size,
                           threads, value, &non_finite);
    }
    ThrowUnlessOk(status, non_finite);
  });
  return values.array;
}

}  // namespace

void RegisterGatherSum(py::module_& module) {
  module.def("gather_sum", &Gather, py::arg("delta"), py::arg("residual"),
             py::arg("indices"));
  module.def("take_from_sum", &Take, py::arg("delta"), py::arg("residual"),
             py::arg("indices"), py::arg("residual_out"));
}

}  // namespace fedplug::python
