// Declares Fedplug>EncodeIndices and Fedplug>DecodeIndices: types and shapes.
// The layout of a code is described in docs/wire-format.md.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status EncodeIndicesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ignored));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

tensorflow::Status DecodeIndicesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  DimensionHandle count;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(1, &count));
  c->set_output(0, c->Vector(count));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>EncodeIndices")
    .Input("indices: int32")
    .Input("size: int64")
    .Output("code: uint8")
    .Attr("form: {'rice', 'gaps'} = 'rice'")
    .SetShapeFn(EncodeIndicesShape);

REGISTER_OP("Fedplug>DecodeIndices")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .Attr("form: {'rice', 'gaps'} = 'rice'")
    .SetShapeFn(DecodeIndicesShape);

}  // namespace
}  // namespace fedplug
