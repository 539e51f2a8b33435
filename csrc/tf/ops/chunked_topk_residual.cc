// Declares Fedplug>ChunkedTopKResidual: types and shapes.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status ChunkedTopKResidualShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &scalar));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 0, &scalar));
  const ShapeHandle selected = c->Vector(c->UnknownDim());
  c->set_output(0, selected);
  c->set_output(1, selected);
  c->set_output(2, update);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>ChunkedTopKResidual")
    .Input("delta: T")
    .Input("residual: T")
    .Input("k: int64")
    .Input("decay: T")
    .Output("values: T")
    .Output("indices: int32")
    .Output("new_residual: T")
    .Attr("T: {float, double}")
    .Attr("chunk: int >= 1")
    .SetShapeFn(ChunkedTopKResidualShape);

}  // namespace
}  // namespace fedplug
