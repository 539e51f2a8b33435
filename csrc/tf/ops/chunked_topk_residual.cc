// Declares Fedplug>ChunkedTopKResidual: types, shapes, documentation.
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
    .SetShapeFn(ChunkedTopKResidualShape)
    .Doc(R"doc(
Selects the k largest entries of every chunk of an update; the rest is the next residual.

With a = delta + decay * residual, flattened and cut into chunks of `chunk` elements, of which the last may be shorter:
`values` and `indices` are the k entries of each chunk with the largest |a|, or all of a shorter chunk; ties go to the
lower index. `new_residual` is a with exactly these entries set to zero. The result does not depend on the number of
threads. Not differentiable.

Errors (InvalidArgument): the shapes of `delta` and `residual` differ; `k` or `decay` is not a scalar, `k` is negative,
`decay` is not in [0, 1]; there are 2^31 elements or more; an entry of a is NaN or infinite.

delta: The update. Shape [S], any shape of n elements.
residual: The residual of earlier rounds. Shape [S].
k: Number of entries to select from each chunk. Shape [].
decay: The factor of the residual. Shape [].
values: The selected entries. Shape [c].
indices: Their flat indices, strictly ascending. Shape [c].
new_residual: The residual for the next round. Shape [S].
chunk: Number of elements of a chunk.
)doc");

}  // namespace
}  // namespace fedplug
