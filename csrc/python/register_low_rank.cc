// Products of matrices with a few vectors for NumPy arrays.
#include <string>
#include <utility>

#include "core/low_rank.h"
#include "core/matrix_times.h"
#include "python/arrays.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

void RequireMatrix(const Flat& flat, const char* name) {
  if (flat.array.ndim() == 2) return;
  ThrowArgumentError(std::string(name) + " has " +
                     std::to_string(flat.array.ndim()) +
                     " dimensions; it must be a matrix");
}

void RequireEqual(std::int64_t a, const std::string& a_what, std::int64_t b,
                  const std::string& b_what) {
  if (a == b) return;
  ThrowArgumentError("there are " + std::to_string(a) + " " + a_what + " and " +
                     std::to_string(b) + " " + b_what +
                     "; the two must be equal");
}

Flat NewMatrix(const py::dtype& dtype, std::int64_t rows,
               std::int64_t columns) {
  return {NewArrayOfShape(dtype, {rows, columns}), DTypeOf(dtype),
          rows * columns};
}

py::array Times(const py::object& a_object, const py::object& b_object,
                bool transposed) {
  const Flat a = WideFloatArray(a_object, "a");
  const Flat b = FlatArray(b_object, "b", a.dtype);
  RequireMatrix(a, "a");
  RequireMatrix(b, "b");
  const MatrixShape shape{a.array.shape(0), a.array.shape(1), b.array.shape(1)};
  RequireEqual(transposed ? shape.rows : shape.columns,
               transposed ? "rows of a" : "columns of a", b.array.shape(0),
               "rows of b");
  Flat product = NewMatrix(b.array.dtype(),
                           transposed ? shape.columns : shape.rows, shape.rank);
  WithWideFloatType(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* const times = transposed ? TransposedTimes<T> : MatrixTimes<T>;
    RunKernel([&](Parallel& threads) {
      return times(a.Read<T>(), b.Read<T>(), shape, threads,
                   product.Write<T>());
    });
  });
  return product.array;
}

// The shape of the product of two factors.
MatrixShape ShapeOf(const Flat& p, const Flat& q) {
  RequireMatrix(p, "p");
  RequireMatrix(q, "q");
  RequireEqual(p.array.shape(1), "columns of p", q.array.shape(1),
               "columns of q");
  return {p.array.shape(0), q.array.shape(0), p.array.shape(1)};
}

// `out` is an array of as many elements of the dtype of `p`, or None.
py::array Matrix(const py::object& p_object, const py::object& q_object,
                 const py::object& out) {
  const Flat p = WideFloatArray(p_object, "p");
  const Flat q = FlatArray(q_object, "q", p.dtype);
  const MatrixShape shape = ShapeOf(p, q);
  const py::dtype dtype = p.array.dtype();
  Flat matrix = out.is_none()
                    ? NewMatrix(dtype, shape.rows, shape.columns)
                    : NewOrGiven(dtype, shape.rows * shape.columns, out);
  RequireDisjoint(p, "p", matrix, "out");
  RequireDisjoint(q, "q", matrix, "out");
  WithWideFloatType(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    RunKernel([&](Parallel& threads) {
      return LowRankMatrix(p.Read<T>(), q.Read<T>(), shape, threads,
                           matrix.Write<T>());
    });
  });
  return matrix.array;
}

}  // namespace

void RegisterLowRank(py::module_& module) {
  module.def("matrix_times", &Times, py::arg("a"), py::arg("b"),
             py::arg("transposed") = false);
  module.def("low_rank_matrix", &Matrix, py::arg("p"), py::arg("q"),
             py::arg("out") = py::none());
}

}  // namespace fedplug::python
