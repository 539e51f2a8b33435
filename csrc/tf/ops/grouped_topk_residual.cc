// Declares Fedplug>GroupedTopKResidual: types and shapes.
#include <cstdint>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/ops/topk_shapes.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status GroupedTopKResidualShape(InferenceContext* c) {
  const int tensors = (c->num_inputs() - 1) / 2;
  std::int64_t n = 0;
  for (int t = 0; t < tensors; ++t) {
    ShapeHandle update;
    TF_RETURN_IF_ERROR(c->Merge(c->input(t), c->input(tensors + t), &update));
    c->set_output(3 + t, update);
    const DimensionHandle size = c->NumElements(update);
    n = n < 0 || !c->ValueKnown(size) ? -1 : n + c->Value(size);
  }
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * tensors), 0, &scalar));
  DimensionHandle selected;
  TF_RETURN_IF_ERROR(NumSelected(c, 2 * tensors, n, &selected));
  c->set_output(0, c->Vector(selected));
  c->set_output(1, c->Vector(selected));
  c->set_output(2, c->Vector(tensors + 1));
  c->set_output(3 + tensors, c->Scalar());
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>GroupedTopKResidual")
    .Input("deltas: N * T")
    .Input("residuals: N * T")
    .Input("k: int64")
    .Output("values: T")
    .Output("indices: int32")
    .Output("row_splits: int64")
    .Output("new_residuals: N * T")
    .Output("nonfinite: int64")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("on_nonfinite: {'error', 'drop'} = 'error'")
    .SetShapeFn(GroupedTopKResidualShape);

}  // namespace
}  // namespace fedplug
