// Quantization to one bit with error feedback for NumPy arrays.
#include "core/sign_residual.h"
#include "core/value_code.h"
#include "python/arrays.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

py::array_t<std::uint8_t> Sign(const py::object& delta_object,
                               const py::object& residual_object) {
  const Flat delta = FloatArray(delta_object, "delta");
  Flat residual =
      ArrayLike(delta, "delta", residual_object, "residual", Access::kWrite);
  if (delta.size != residual.size) {
    ThrowArgumentError("delta has " + std::to_string(delta.size) +
                       " elements and residual has " +
                       std::to_string(residual.size) +
                       "; they must have the same number");
  }
  RequireDisjoint(delta, "delta", residual, "residual");
  const ValueCode form{ValueForm::kSign};
  ThrowUnlessOk(CheckValueCode(form, delta.size));
  Parallel& threads = Threads();
  py::array_t<std::uint8_t> code(
      ValueCodeBytes(form, delta.size, delta.array.itemsize()));
  std::uint8_t* const bytes = code.mutable_data();
  Status status;
  std::int64_t non_finite = 0;
  WithFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = delta.Read<T>();
    T* const kept = residual.Write<T>();
    const py::gil_scoped_release release;
    status =
        SignResidual(read, kept, kept, delta.size, threads, bytes, &non_finite);
  });
  ThrowUnlessOk(status, non_finite);
  return code;
}

}  // namespace

void RegisterSignResidual(py::module_& module) {
  module.def("sign_residual", &Sign, py::arg("delta"), py::arg("residual"));
}

}  // namespace fedplug::python
