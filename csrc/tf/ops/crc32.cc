// Declares Fedplug>Crc32: types, shapes, documentation.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status Crc32Shape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  c->set_output(0, c->Scalar());
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>Crc32")
    .Input("data: uint8")
    .Output("checksum: uint32")
    .SetShapeFn(Crc32Shape)
    .Doc(R"doc(
The CRC-32 of zlib, PNG and Ethernet.

Errors (InvalidArgument): `data` is not a vector.

data: Shape [b].
checksum: Shape [].
)doc");

}  // namespace
}  // namespace fedplug
