// Threshold sparsification for NumPy arrays.
#include <optional>

#include "core/threshold_residual.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

// `threshold` is an array of one element, rounded to the dtype by NumPy.
py::tuple ThresholdResidual(const py::object& delta_object,
                            const py::object& residual_object,
                            const py::object& threshold_object,
                            const py::object& residual_out) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  const Flat threshold =
      ArrayLike(delta, "delta", threshold_object, "threshold");
  ResidualUpdate residual =
      CheckResidual(delta, "delta", residual_object, "residual", residual_out,
                    "residual_out");
  if (threshold.size != 1) ThrowArgumentError("threshold is not one number");
  Parallel& threads = Threads();
  py::tuple entries;
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = delta.Read<T>();
    const T bound = *threshold.Read<T>();
    const T* const before = residual.Read<T>();
    T* const kept = residual.out.Write<T>();
    ThresholdSelection<T> selection;
    std::optional<Flat> values;
    py::array_t<std::int32_t> indices;
    // In place, allocates before anything is written, so that std::bad_alloc
    // loses nothing.
    const auto allocate = [&](std::int64_t count) {
      values = NewArrayLike(delta, count);
      indices = NewArrayOf<std::int32_t>(count);
    };
    const auto before_writing = [&](std::int64_t count) {
      const WithGil taken;
      allocate(count);
    };
    std::int64_t non_finite = 0;
    Status status;
    {
      const WithoutGil released;
      status = selection.Run(read, before, kept, delta.size, bound, threads,
                             &non_finite, before_writing);
    }
    ThrowUnlessOk(status, non_finite);
    if (!values.has_value()) allocate(selection.count());
    selection.Write(threads, values->template Write<T>(),
                    indices.mutable_data());
    entries = py::make_tuple(values->array, indices);
  });
  return entries;
}

}  // namespace

void RegisterThresholdResidual(py::module_& module) {
  module.def("threshold_residual", &ThresholdResidual, py::arg("delta"),
             py::arg("residual"), py::arg("threshold"),
             py::arg("residual_out"));
}

}  // namespace fedplug::python
