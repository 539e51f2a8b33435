// Declares Fedplug>TopKMomentum: types and shapes.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/ops/topk_shapes.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status TopKMomentumShape(InferenceContext* c) {
  ShapeHandle update, scalar;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(2), &update));
  TF_RETURN_IF_ERROR(c->Merge(update, c->input(3), &update));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &scalar));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 0, &scalar));
  DimensionHandle selected;
  TF_RETURN_IF_ERROR(NumSelected(
      c, 4, InferenceContext::Value(c->NumElements(update)), &selected));
  c->set_output(0, c->Vector(selected));
  c->set_output(1, c->Vector(selected));
  c->set_output(2, update);
  c->set_output(3, update);
  c->set_output(4, c->Scalar());
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>TopKMomentum")
    .Input("gradient: T")
    .Input("momentum: T")
    .Input("velocity: T")
    .Input("residual: T")
    .Input("k: int64")
    .Output("values: T")
    .Output("indices: int32")
    .Output("new_velocity: T")
    .Output("new_residual: T")
    .Output("nonfinite: int64")
    .Attr("T: {float, double}")
    .Attr("on_nonfinite: {'error', 'drop'} = 'error'")
    .SetShapeFn(TopKMomentumShape);

}  // namespace
}  // namespace fedplug
