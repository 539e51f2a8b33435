// Declares Fedplug>TopKMomentum: types, shapes, documentation.
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
    .SetShapeFn(TopKMomentumShape)
    .Doc(R"doc(
Momentum correction, top-k selection and factor masking of Deep Gradient Compression in one pass.

With u = momentum * velocity + gradient and a = residual + u, each product and sum rounded once: `values` and `indices`
are the min(k, n) entries of a with the largest magnitude, `new_velocity` is u and `new_residual` is a, both with +0
at selected entries. Ties go to the lower index. The result does not depend on the number of threads. The buffers of
`velocity` and `residual` are reused if TensorFlow allows it. Not differentiable.

It is what Lin et al., "Deep Gradient Compression" (ICLR 2018), describe in sections 3.1 and 3.2.

Errors (InvalidArgument): the shapes of `gradient`, `velocity` and `residual` differ; `momentum` or `k` is not a scalar;
`k` is negative; there are 2^31 elements or more; an entry of a is NaN or infinite and `on_nonfinite` is "error".

gradient: The update. Shape [S], any shape of n elements.
momentum: The factor of the old velocity. Shape [].
velocity: The velocity of the last round. Shape [S].
residual: The residual of earlier rounds. Shape [S].
k: Number of entries to select; more than n means all. Shape [].
values: The selected entries. Shape [min(k, n)].
indices: Their flat indices, strictly ascending. Shape [min(k, n)].
new_velocity: The velocity for the next round. Shape [S].
new_residual: The residual for the next round. Shape [S].
nonfinite: The number of NaN or infinite entries of a that were dropped. Shape [].
on_nonfinite: "error" refuses an update with a NaN or infinite entry of a; "drop" replaces such an entry, and that of u,
by zero.
)doc");

}  // namespace
}  // namespace fedplug
