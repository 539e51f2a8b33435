// Declares Fedplug>MatrixTimes, Fedplug>LowRankMatrix and
// Fedplug>LowRankResidual: types and shapes.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status MatrixTimesShape(InferenceContext* c) {
  bool transposed;
  TF_RETURN_IF_ERROR(c->GetAttr("transposed", &transposed));
  ShapeHandle a, b;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &a));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &b));
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
  ShapeHandle of_rows, of_columns;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p), 2, &of_rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p + 1), 2, &of_columns));
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

REGISTER_OP("Fedplug>MatrixTimes")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("transposed: bool = false")
    .Attr("T: {float, double}")
    .SetShapeFn(MatrixTimesShape);

REGISTER_OP("Fedplug>LowRankMatrix")
    .Input("p: T")
    .Input("q: T")
    .Output("matrix: T")
    .Attr("T: {float, double}")
    .SetShapeFn(LowRankMatrixShape);

REGISTER_OP("Fedplug>LowRankResidual")
    .Input("a: T")
    .Input("p: T")
    .Input("q: T")
    .Output("residual: T")
    .Attr("T: {float, double}")
    .SetShapeFn(LowRankResidualShape);

}  // namespace
}  // namespace fedplug
