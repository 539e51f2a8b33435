// Declares Fedplug>EncodeValues and Fedplug>DecodeValues: types, shapes,
// documentation. The layout of a code is described in core/value_code.h.
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
        "form: {'float16', 'bfloat16', 'blockwise8', 'qsgd', 'terngrad', "
        "'sign', 'codebook', 'bounded', 'bfp'}")
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(EncodeValuesShape)
    .Doc(R"doc(
Quantizes and packs a vector into the bytes of a payload.

Errors (InvalidArgument): a value is NaN or infinite; `bits`, `block_size` or `relative` are out of range for the form.

values: Shape [n].
seed: The first of the two seeds of the noise of random forms; the other is the checksum of the values. Shape [].
bits: Bits per level, for 'qsgd', 'bfp' and 'codebook'; other forms ignore it. Shape [].
code: Shape [b]; b follows from n, T, `bits` and the attributes.
form: The layout, see core/value_code.h.
block_size: Number of values that share a scale, for 'qsgd', 'bfp' and 'blockwise8'.
relative: The largest error as a share of the range, for 'bounded'.
)doc");

REGISTER_OP("Fedplug>DecodeValues")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(
        "form: {'float16', 'bfloat16', 'blockwise8', 'qsgd', 'terngrad', "
        "'sign', 'codebook', 'bounded', 'bfp'}")
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(DecodeValuesShape)
    .Doc(R"doc(
The inverse of Fedplug>EncodeValues with the same `bits` and attributes, for untrusted bytes.

Allocates only after a check that the code has the length of `count` values.

Errors (InvalidArgument): the bytes are not what Fedplug>EncodeValues writes for `count` values; `bits` or `block_size`
are out of range for the form.

code: Shape [b].
count: Below 2^31. Shape [].
bits: Bits per level, for 'qsgd', 'bfp' and 'codebook'; other forms ignore it. Shape [].
values: Finite. Shape [count].
form: The layout, see core/value_code.h.
block_size: Number of values that share a scale, for 'qsgd', 'bfp' and 'blockwise8'.
relative: The largest error as a share of the range, for 'bounded'.
)doc");

}  // namespace
}  // namespace fedplug
