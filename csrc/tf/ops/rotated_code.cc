// Declares Fedplug>EncodeRotated and Fedplug>DecodeRotated: types and shapes.
// The method and the layout are described in core/rotated_code.h.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The vector that is coded, and from `key` on key, levels and block_size.
tensorflow::Status CheckRanks(InferenceContext* c, int key) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(key), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(key + 1), 1, &ignored));
  return c->WithRank(c->input(key + 2), 0, &ignored);
}

tensorflow::Status EncodeRotatedShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, 1));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

tensorflow::Status DecodeRotatedShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, 2));
  DimensionHandle count;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(1, &count));
  c->set_output(0, c->Vector(count));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>EncodeRotated")
    .Input("values: T")
    .Input("key: int64")
    .Input("levels: double")
    .Input("block_size: int64")
    .Output("code: uint8")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(EncodeRotatedShape);

REGISTER_OP("Fedplug>DecodeRotated")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("key: int64")
    .Input("levels: double")
    .Input("block_size: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(DecodeRotatedShape);

}  // namespace
}  // namespace fedplug
