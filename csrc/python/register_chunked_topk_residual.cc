// Top-k within chunks for NumPy arrays.
#include "core/chunked_topk_residual.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

// `decay` is an array of one element, rounded to the dtype by NumPy.
py::tuple ChunkedTopK(const py::object& delta_object,
                      const py::object& residual_object, std::int64_t k,
                      std::int64_t chunk, const py::object& decay_object,
                      const py::object& residual_out) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  const Flat decay = ArrayLike(delta, "delta", decay_object, "decay");
  ResidualUpdate residual =
      CheckResidual(delta, "delta", residual_object, "residual", residual_out,
                    "residual_out");
  if (decay.size != 1) ThrowArgumentError("decay is not one number");
  ThrowUnlessOk(CheckChunks(delta.size, k, chunk));
  Parallel& threads = Threads();
  const std::int64_t count = ChunkedEntries(delta.size, k, chunk);
  Flat values = NewArrayLike(delta, count);
  auto indices = NewArrayOf<std::int32_t>(count);
  std::int32_t* const index = indices.mutable_data();
  std::int64_t non_finite = 0;
  Status status;
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = delta.Read<T>();
    const T share = *decay.Read<T>();
    const T* const before = residual.Read<T>();
    T* const kept = residual.out.Write<T>();
    T* const value = values.Write<T>();
    const WithoutGil released;
    status = ChunkedTopKResidual(read, before, kept, delta.size, k, chunk,
                                 share, threads, value, index, &non_finite);
  });
  ThrowUnlessOk(status, non_finite);
  return py::make_tuple(values.array, indices);
}

}  // namespace

void RegisterChunkedTopKResidual(py::module_& module) {
  module.def("chunked_topk_residual", &ChunkedTopK, py::arg("delta"),
             py::arg("residual"), py::arg("k"), py::arg("chunk"),
             py::arg("decay"), py::arg("residual_out"));
}

}  // namespace fedplug::python
