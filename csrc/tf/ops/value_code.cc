// Declares Fedplug>EncodeValues and Fedplug>DecodeValues: types and shapes. The
// layout of a code is described in docs/wire-format.md.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status EncodeValuesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

tensorflow::Status DecodeValuesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  DimensionHandle count;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(1, &count));
  c->set_output(0, c->Vector(count));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>EncodeValues")
    .Input("values: T")
    .Input("seed: int64")
    .Input("bits: int64")
    .Output("code: uint8")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(
        "form: {'float16', 'bfloat16', 'qsgd', 'nearest', 'sign', "
        "'codebook', 'bounded', 'bfp'}")
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(EncodeValuesShape);

REGISTER_OP("Fedplug>DecodeValues")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(
        "form: {'float16', 'bfloat16', 'qsgd', 'nearest', 'sign', "
        "'codebook', 'bounded', 'bfp'}")
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(DecodeValuesShape);

}  // namespace
}  // namespace fedplug
