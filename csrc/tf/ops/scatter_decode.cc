// Declares Fedplug>ScatterDecodeAdd and Fedplug>ScatterDecode: types and shapes.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The payloads are the inputs after the first.
tensorflow::Status CheckPayloadShapes(InferenceContext* c) {
  ShapeHandle values, indices, row_splits, weights;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &values));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &indices));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &row_splits));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 1, &weights));
  ShapeHandle entries;
  TF_RETURN_IF_ERROR(c->Merge(values, indices, &entries));
  DimensionHandle payloads;
  TF_RETURN_IF_ERROR(c->Subtract(c->Dim(row_splits, 0), 1, &payloads));
  return c->Merge(payloads, c->Dim(weights, 0), &payloads);
}

tensorflow::Status ScatterDecodeAddShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckPayloadShapes(c));
  c->set_output(0, c->input(0));
  return tensorflow::OkStatus();
}

tensorflow::Status ScatterDecodeShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ignored));
  TF_RETURN_IF_ERROR(CheckPayloadShapes(c));
  DimensionHandle size;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(0, &size));
  c->set_output(0, c->Vector(size));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>ScatterDecodeAdd")
    .Input("accumulator: T")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Output("sum: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(ScatterDecodeAddShape);

REGISTER_OP("Fedplug>ScatterDecode")
    .Input("size: int64")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Output("sum: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(ScatterDecodeShape);

}  // namespace
}  // namespace fedplug
