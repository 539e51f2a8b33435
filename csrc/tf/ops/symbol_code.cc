// Declares Fedplug>EncodeSymbols and Fedplug>DecodeSymbols: types and shapes.
// The layout of a code is described in docs/wire-format.md.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status BytesToBytesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>EncodeSymbols")
    .Input("packed: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("code: uint8")
    .SetShapeFn(BytesToBytesShape);

REGISTER_OP("Fedplug>DecodeSymbols")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("packed: uint8")
    .SetShapeFn(BytesToBytesShape);

}  // namespace
}  // namespace fedplug
