// Sums and products of matrices with a few vectors for NumPy arrays.
#include <string>
#include <utility>

#include "core/low_rank.h"
#include "core/matrix_times.h"
#include "core/sum_and_largest.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

using value_loops::WideOf;

DType WideDType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

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

py::tuple SumAndLargestOf(const py::object& delta_object,
                          const py::object& residual_object,
                          const py::object& out) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  ResidualUpdate residual =
      CheckResidual(delta, "delta", residual_object, "residual", out, "out");
  if (!residual.in.has_value()) ThrowArgumentError("residual is None");
  Flat largest = NewArrayLike(delta, 1);
  Parallel& threads = Threads();
  Status status;
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = delta.Read<T>();
    const T* const before = residual.Read<T>();
    T* const sum = residual.out.Write<T>();
    T* const found = largest.Write<T>();
    const WithoutGil released;
    status = SumAndLargest(read, before, delta.size, threads, sum, found);
  });
  ThrowUnlessOk(status);
  return py::make_tuple(residual.out.array, largest.array);
}

py::array Times(const py::object& a_object, const py::object& b_object,
                double scale, bool transposed) {
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
  Parallel& threads = Threads();
  Status status;
  WithWideFloatType(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* const times = transposed ? TransposedTimes<T> : MatrixTimes<T>;
    const T* const read = a.Read<T>();
    const T* const vectors = b.Read<T>();
    T* const write = product.Write<T>();
    const WithoutGil released;
    status = times(read, static_cast<T>(scale), vectors, shape, threads, write);
  });
  ThrowUnlessOk(status);
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

// `out` is an array of as many elements of that dtype, or None.
py::array Matrix(const py::object& p_object, const py::object& q_object,
                 double scale, const py::dtype& dtype, const py::object& out) {
  const DType wide = WideDType(DTypeOf(dtype));
  const Flat p = FlatArray(p_object, "p", wide);
  const Flat q = FlatArray(q_object, "q", wide);
  const MatrixShape shape = ShapeOf(p, q);
  Flat matrix = out.is_none()
                    ? NewMatrix(dtype, shape.rows, shape.columns)
                    : NewOrGiven(dtype, shape.rows * shape.columns, out);
  RequireDisjoint(p, "p", matrix, "out");
  RequireDisjoint(q, "q", matrix, "out");
  Parallel& threads = Threads();
  Status status;
  WithFloatType(matrix.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Wide = WideOf<T>;
    const Wide* const of_rows = p.Read<Wide>();
    const Wide* const of_columns = q.Read<Wide>();
    T* const write = matrix.Write<T>();
    const WithoutGil released;
    status = LowRankMatrix(of_rows, of_columns, static_cast<Wide>(scale), shape,
                           threads, write);
  });
  ThrowUnlessOk(status);
  return matrix.array;
}

// `out` is an array of the size and dtype of `a`, perhaps `a` itself, or None.
py::array Residual(const py::object& a_object, const py::object& p_object,
                   const py::object& q_object, double scale,
                   const py::object& out) {
  const Flat a = WideFloatArray(a_object, "a");
  const Flat p = FlatArray(p_object, "p", a.dtype);
  const Flat q = FlatArray(q_object, "q", a.dtype);
  const MatrixShape shape = ShapeOf(p, q);
  RequireEqual(a.size, "elements of a", shape.rows * shape.columns,
               "of the product of p and q");
  Flat residual = out.is_none()
                      ? NewMatrix(a.array.dtype(), shape.rows, shape.columns)
                      : NewOrGiven(a.array.dtype(), a.size, out);
  RequireDisjointOrSame(a, "a", residual, "out");
  RequireDisjoint(p, "p", residual, "out");
  RequireDisjoint(q, "q", residual, "out");
  Parallel& threads = Threads();
  Status status;
  WithWideFloatType(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = a.Read<T>();
    const T* const of_rows = p.Read<T>();
    const T* const of_columns = q.Read<T>();
    T* const write = residual.Write<T>();
    const WithoutGil released;
    status = LowRankResidual(read, of_rows, of_columns, static_cast<T>(scale),
                             shape, threads, write);
  });
  ThrowUnlessOk(status);
  return residual.array;
}

}  // namespace

void RegisterLowRank(py::module_& module) {
  module.def("sum_and_largest", &SumAndLargestOf, py::arg("delta"),
             py::arg("residual"), py::arg("out"));
  module.def("matrix_times", &Times, py::arg("a"), py::arg("b"),
             py::arg("scale"), py::arg("transposed"));
  module.def("low_rank_matrix", &Matrix, py::arg("p"), py::arg("q"),
             py::arg("scale"), py::arg("dtype"), py::arg("out"));
  module.def("low_rank_residual", &Residual, py::arg("a"), py::arg("p"),
             py::arg("q"), py::arg("scale"), py::arg("out"));
}

}  // namespace fedplug::python
