// Declares Fedplug>GroupedTopKResidual: types, shapes, documentation.
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
    .SetShapeFn(GroupedTopKResidualShape)
    .Doc(R"doc(
Selects the k largest entries of a list of tensors; the rest is the next residuals.

With a = delta + residual of the n elements of all tensors, as one concatenated tensor: `values` and `indices` are the
min(k, n) entries of largest magnitude, and `new_residuals` are a with exactly these entries set to zero, so that scattering the
values into them gives a back bit for bit. Ties go to the lower tensor, then to the lower index. A tensor may lose many
entries or none. The result does not depend on the number of threads. Nothing is concatenated, and the buffers of
`residuals` are reused for `new_residuals` if TensorFlow allows it. Not differentiable.

Errors (InvalidArgument): the shapes of a delta and its residual differ; `k` is not a scalar or is negative; the tensors
have 2^31 elements or more together; a sum is NaN or infinite and `on_nonfinite` is "error".

deltas: The update. Shapes [S_t], any shapes.
residuals: The residuals of earlier rounds. Shapes [S_t].
k: Number of entries to select from all tensors together; more than n means all. Shape [].
values: The selected entries, tensor after tensor. Shape [min(k, n)].
indices: Their flat indices in their own tensor, strictly ascending in each. Shape [min(k, n)].
row_splits: Entries row_splits[t] up to row_splits[t + 1] are those of tensor t. Shape [N + 1].
new_residuals: The residuals for the next round. Shapes [S_t].
nonfinite: The number of NaN or infinite sums that were dropped. Shape [].
on_nonfinite: "error" refuses an update with a NaN or infinite sum; "drop" replaces such a sum by zero.
)doc");

}  // namespace
}  // namespace fedplug
