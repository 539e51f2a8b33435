// Declares Fedplug>Frame and Fedplug>Unframe: types, shapes, documentation. The
// layout of a container is described in core/container.h.
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
    .SetShapeFn(VectorShape)
    .Doc(R"doc(
Writes a header, the length and a checksum around the bytes of an encoder.

body: Shape [b].
container: Shape [b + 12 + the length of the header].
header: The bytes before the body's length, equal for all payloads of one tensor under one encoder.
)doc");

REGISTER_OP("Fedplug>Unframe")
    .Input("container: uint8")
    .Output("body: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorShape)
    .Doc(R"doc(
The inverse of Fedplug>Frame with the same header, for untrusted bytes.

Errors (InvalidArgument): the container is truncated or too long, its header is another one, or its checksum is wrong.

container: Shape [c].
body: Shape [c - 12 - the length of the header].
header: The expected header.
)doc");

}  // namespace
}  // namespace fedplug
