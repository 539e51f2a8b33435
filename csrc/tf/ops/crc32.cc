// Declares Fedplug>Crc32: types and shapes.
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
    .SetShapeFn(Crc32Shape);

}  // namespace
}  // namespace fedplug
