// Declares Fedplug>Frame and Fedplug>Unframe: types and shapes. The layout of a
// container is described in docs/wire-format.md.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status VectorShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>Frame")
    .Input("body: uint8")
    .Output("container: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorShape);

REGISTER_OP("Fedplug>Unframe")
    .Input("container: uint8")
    .Output("body: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorShape);

}  // namespace
}  // namespace fedplug
