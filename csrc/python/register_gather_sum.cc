// Entries of sums at given places, for NumPy arrays.
#include <optional>

#include "core/gather_sum.h"
#include "python/arrays.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

py::array Gather(const py::object& delta_object,
                 const py::object& residual_object,
                 const py::object& indices_object) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  std::optional<Flat> residual;
  if (!residual_object.is_none()) {
    residual = ArrayLike(delta, "delta", residual_object, "residual");
    RequireSameSize(delta, "delta", *residual, "residual");
  }
  Flat values = NewArrayLike(delta, indices.size);
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    RunKernel([&](Parallel& threads) {
      return GatherSum(delta.Read<T>(),
                       residual.has_value() ? residual->Read<T>() : nullptr,
                       delta.size, indices.Read<std::int32_t>(), indices.size,
                       threads, values.Write<T>());
    });
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
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    RunKernel([&](Parallel& threads, std::int64_t* non_finite) {
      return TakeFromSum(delta.Read<T>(), residual.Read<T>(),
                         residual.out.Write<T>(), delta.size,
                         indices.Read<std::int32_t>(), indices.size, threads,
                         values.Write<T>(), non_finite);
    });
  });
  return values.array;
}

}  // namespace

void RegisterGatherSum(py::module_& module) {
  module.def("gather_sum", &Gather, py::arg("delta"), py::arg("residual"),
             py::arg("indices"));
  module.def("take_from_sum", &Take, py::arg("delta"), py::arg("residual"),
             py::arg("indices"), py::arg("residual_out") = py::none());
}

}  // namespace fedplug::python
