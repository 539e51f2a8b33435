// Declares Fedplug>GatherSum and Fedplug>TakeFromSum: types and shapes.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status GatherSumShape(InferenceContext* c) {
  const int addends = c->num_inputs() - 1;
  ShapeHandle same = c->input(0);
  for (int i = 1; i < addends; ++i) {
    TF_RETURN_IF_ERROR(c->Merge(same, c->input(i), &same));
  }
  ShapeHandle indices;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(addends), 1, &indices));
  c->set_output(0, indices);
  return tensorflow::OkStatus();
}

tensorflow::Status TakeFromSumShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  ShapeHandle indices;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &indices));
  c->set_output(0, indices);
  c->set_output(1, update);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>GatherSum")
    .Input("addends: N * T")
    .Input("indices: int32")
    .Output("values: T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .SetShapeFn(GatherSumShape);

REGISTER_OP("Fedplug>TakeFromSum")
    .Input("delta: T")
    .Input("residual: T")
    .Input("indices: int32")
    .Output("values: T")
    .Output("new_residual: T")
    .Attr("T: {float, double}")
    .SetShapeFn(TakeFromSumShape);

}  // namespace
}  // namespace fedplug
