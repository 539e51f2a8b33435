// Declares Fedplug>GatherSum and Fedplug>TakeFromSum: types, shapes,
// documentation.
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
    .SetShapeFn(GatherSumShape)
    .Doc(R"doc(
Gathers elements of a tensor, or of the sum of two, without computing other sums. Not differentiable.

Errors (InvalidArgument): there are more than two addends, or their shapes differ; there are 2^31 elements or more; an
index is out of range.

addends: One or two tensors. Shape [S], any shape of n elements.
indices: Flat indices in any order. Shape [k].
values: The sums at these indices. Shape [k].
)doc");

REGISTER_OP("Fedplug>TakeFromSum")
    .Input("delta: T")
    .Input("residual: T")
    .Input("indices: int32")
    .Output("values: T")
    .Output("new_residual: T")
    .Attr("T: {float, double}")
    .SetShapeFn(TakeFromSumShape)
    .Doc(R"doc(
Takes the entries at given indices from an update; the rest is the next residual.

With a = delta + residual, flattened: `values` are the entries of a at `indices`, and `new_residual` is a with exactly
these entries set to zero. Not differentiable.

Errors (InvalidArgument): the shapes of `delta` and `residual` differ; there are 2^31 elements or more; an index is out
of range, or not above its predecessor; an entry of a is NaN or infinite.

delta: The update. Shape [S], any shape of n elements.
residual: The residual of earlier rounds. Shape [S].
indices: Flat indices, strictly ascending. Shape [k].
values: The selected entries. Shape [k].
new_residual: The residual for the next round. Shape [S].
)doc");

}  // namespace
}  // namespace fedplug
