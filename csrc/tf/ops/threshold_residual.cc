// Declares Fedplug>ThresholdResidual: types, shapes, documentation.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status ThresholdResidualShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &scalar));
  const ShapeHandle selected = c->Vector(c->UnknownDim());
  c->set_output(0, selected);
  c->set_output(1, selected);
  c->set_output(2, update);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>ThresholdResidual")
    .Input("delta: T")
    .Input("residual: T")
    .Input("threshold: T")
    .Output("values: T")
    .Output("indices: int32")
    .Output("new_residual: T")
    .Attr("T: {float, double}")
    .SetShapeFn(ThresholdResidualShape)
    .Doc(R"doc(
Selects the entries of an update that reach a threshold; the rest is the next residual.

With a = delta + residual, flattened: `values` and `indices` are the entries with |a| >= threshold that are not zero,
and `new_residual` is a with exactly these entries set to zero. The result does not depend on the number of threads.
Not differentiable.

Errors (InvalidArgument): the shapes of `delta` and `residual` differ; `threshold` is not a scalar, or is negative or
NaN; there are 2^31 elements or more; an entry of a is NaN or infinite.

delta: The update. Shape [S], any shape of n elements.
residual: The residual of earlier rounds. Shape [S].
threshold: The smallest selected magnitude. Shape [].
values: The selected entries. Shape [c].
indices: Their flat indices, strictly ascending. Shape [c].
new_residual: The residual for the next round. Shape [S].
)doc");

}  // namespace
}  // namespace fedplug
