// Entries of sums at given places, for NumPy arrays.
#include "core/take_from_sum.h"
#include "python/arrays.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

py::array Pick(const py::object& values_object,
               const py::object& indices_object) {
  const Flat values = WideFloatArray(values_object, "values");
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  Flat out = NewArrayLike(values, indices.size);
  WithWideFloatType(values.dtype, [&](auto zero) {
    using T = decltype(zero);
    RunKernel([&](Parallel& threads) {
      return Gather(values.Read<T>(), values.size, indices.Read<std::int32_t>(),
                    indices.size, threads, out.Write<T>());
    });
  });
  return out.array;
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

void RegisterTakeFromSum(py::module_& module) {
  module.def("gather", &Pick, py::arg("values"), py::arg("indices"));
  module.def("take_from_sum", &Take, py::arg("delta"), py::arg("residual"),
             py::arg("indices"), py::arg("residual_out") = py::none());
}

}  // namespace fedplug::python
