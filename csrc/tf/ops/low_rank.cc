// Declares Fedplug>SumAndLargest, Fedplug>MatrixTimes, Fedplug>LowRankMatrix
// and Fedplug>LowRankResidual: types, shapes, documentation.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status SumAndLargestShape(InferenceContext* c) {
  ShapeHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &merged));
  c->set_output(0, merged);
  c->set_output(1, c->Scalar());
  return tensorflow::OkStatus();
}

tensorflow::Status MatrixTimesShape(InferenceContext* c) {
  bool transposed;
  TF_RETURN_IF_ERROR(c->GetAttr("transposed", &transposed));
  ShapeHandle a, b, ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &a));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &b));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  const DimensionHandle terms = c->Dim(a, transposed ? 0 : 1);
  const DimensionHandle sums = c->Dim(a, transposed ? 1 : 0);
  DimensionHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(terms, c->Dim(b, 0), &merged));
  c->set_output(0, c->Matrix(sums, c->Dim(b, 1)));
  return tensorflow::OkStatus();
}

// The shape of the product of factors `p` and p + 1.
tensorflow::Status ProductShape(InferenceContext* c, int p,
                                ShapeHandle* product) {
  ShapeHandle of_rows, of_columns, ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p), 2, &of_rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p + 1), 2, &of_columns));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p + 2), 0, &ignored));
  DimensionHandle rank;
  TF_RETURN_IF_ERROR(
      c->Merge(c->Dim(of_rows, 1), c->Dim(of_columns, 1), &rank));
  *product = c->Matrix(c->Dim(of_rows, 0), c->Dim(of_columns, 0));
  return tensorflow::OkStatus();
}

tensorflow::Status LowRankMatrixShape(InferenceContext* c) {
  ShapeHandle product;
  TF_RETURN_IF_ERROR(ProductShape(c, 0, &product));
  c->set_output(0, product);
  return tensorflow::OkStatus();
}

tensorflow::Status LowRankResidualShape(InferenceContext* c) {
  ShapeHandle product, merged;
  TF_RETURN_IF_ERROR(ProductShape(c, 1, &product));
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), product, &merged));
  c->set_output(0, merged);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>SumAndLargest")
    .Input("delta: T")
    .Input("residual: T")
    .Output("sum: T")
    .Output("largest: T")
    .Attr("T: {float, double}")
    .SetShapeFn(SumAndLargestShape)
    .Doc(R"doc(
Adds a residual to an update, and finds the largest magnitude.

Errors (InvalidArgument): the shapes differ.

delta: Any shape.
residual: The shape of `delta`.
sum: delta + residual, which need not be finite. The shape of `delta`.
largest: max |sum|; 0 for an empty sum, NaN if one is NaN. Shape [].
)doc");

REGISTER_OP("Fedplug>MatrixTimes")
    .Input("a: T")
    .Input("b: Wide")
    .Input("scale: Wide")
    .Output("product: Wide")
    .Attr("transposed: bool = false")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Wide: {float, double}")
    .SetShapeFn(MatrixTimesShape)
    .Doc(R"doc(
Multiplies a large matrix with a few vectors, in an order of additions that depends on the shape alone.

The order is described in core/matrix_times.h.

Errors (InvalidArgument): the shapes do not fit.

a: Shape [m, n].
b: Shape [n, r], or [m, r] with `transposed`.
scale: The divisor of the elements of `a`, which are 0 if it is 0. Shape [].
product: (a / scale) b, or (a / scale)' b with `transposed`. Shape [m, r] or [n, r].
Wide: double for double, float for others.
)doc");

REGISTER_OP("Fedplug>LowRankMatrix")
    .Input("p: Wide")
    .Input("q: Wide")
    .Input("scale: Wide")
    .Output("matrix: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Wide: {float, double}")
    .SetShapeFn(LowRankMatrixShape)
    .Doc(R"doc(
The product of two thin matrices.

Errors (InvalidArgument): the shapes do not fit, or there is no column.

p: Shape [m, r].
q: Shape [n, r].
scale: Shape [].
matrix: scale p q'; numbers too large for T become its largest number. Shape [m, n].
Wide: double for double, float for others.
)doc");

REGISTER_OP("Fedplug>LowRankResidual")
    .Input("a: T")
    .Input("p: Wide")
    .Input("q: Wide")
    .Input("scale: Wide")
    .Output("residual: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Wide: {float, double}")
    .SetShapeFn(LowRankResidualShape)
    .Doc(R"doc(
The residual of a large matrix after the product of two thin ones.

Errors (InvalidArgument): the shapes do not fit, or there is no column.

a: Shape [m, n].
p: Shape [m, r].
q: Shape [n, r].
scale: Shape [].
residual: a - the matrix of Fedplug>LowRankMatrix. Shape [m, n].
Wide: double for double, float for others.
)doc");

}  // namespace
}  // namespace fedplug
