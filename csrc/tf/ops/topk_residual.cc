// Declares Fedplug>TopKResidual: types, shapes, documentation. Must not know
// how it is computed.
#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// min(k, n), where both are known while the graph is being built.
tensorflow::Status NumSelected(InferenceContext* c, ShapeHandle update,
                               DimensionHandle* selected) {
  *selected = c->UnknownDim();
  const tensorflow::Tensor* k_tensor = c->input_tensor(2);
  if (k_tensor == nullptr) return tensorflow::OkStatus();
  const std::int64_t k = k_tensor->scalar<std::int64_t>()();
  if (k < 0) {
    return tensorflow::errors::InvalidArgument("k must be 0 or more, not ", k);
  }
  const DimensionHandle n = c->NumElements(update);
  if (c->ValueKnown(n)) *selected = c->MakeDim(std::min(k, c->Value(n)));
  return tensorflow::OkStatus();
}

tensorflow::Status TopKResidualShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &scalar));
  DimensionHandle selected;
  TF_RETURN_IF_ERROR(NumSelected(c, update, &selected));
  c->set_output(0, c->Vector(selected));
  c->set_output(1, c->Vector(selected));
  c->set_output(2, update);
  c->set_output(3, c->Scalar());
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>TopKResidual")
    .Input("delta: T")
    .Input("residual: T")
    .Input("k: int64")
    .Output("values: T")
    .Output("indices: int32")
    .Output("new_residual: T")
    .Output("nonfinite: int64")
    .Attr("T: {float, double, bfloat16, half}")
    .Attr("on_nonfinite: {'error', 'drop'} = 'error'")
    .SetShapeFn(TopKResidualShape)
    .Doc(R"doc(
Takes the k largest entries out of an update and keeps the rest for the next round.

With a = delta + residual, flattened: `values` and `indices` are the min(k, n) entries of largest magnitude, and
`new_residual` is a with exactly these entries set to zero, so that scattering `values` at `indices` into
`new_residual` gives a back bit for bit. Ties go to the lower index. The result does not depend on the number of
threads. The buffer of `residual` is reused for `new_residual` where TensorFlow allows it. Not differentiable.

Errors (InvalidArgument): the shapes of `delta` and `residual` differ; `k` is not a scalar or is negative; there are
2^31 elements or more; an entry of a is NaN or infinite and `on_nonfinite` is "error".

delta: The update of this round. Shape [S], any shape of n elements.
residual: What earlier rounds left behind. Shape [S].
k: How many entries to take. Shape []. More than n means all.
values: The entries taken, with their sign. Shape [min(k, n)].
indices: Their places in the flattened update, strictly ascending. Shape [min(k, n)].
new_residual: What is left for the next round. Shape [S].
nonfinite: The number of NaN or infinite entries of a that were dropped. Shape [].
on_nonfinite: "error" refuses an update with a NaN or infinite entry; "drop" replaces such an entry by zero.
)doc");

}  // namespace
}  // namespace fedplug
