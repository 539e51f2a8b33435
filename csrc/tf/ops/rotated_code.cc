// Declares Fedplug>EncodeRotated and Fedplug>DecodeRotated: types, shapes,
// documentation. The method and the layout are described in
// core/rotated_code.h.
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
    .SetShapeFn(EncodeRotatedShape)
    .Doc(R"doc(
Rotates blocks of a vector at random, and quantizes every element to the nearest level.

A block with an element that is NaN or infinite becomes bytes that Fedplug>DecodeRotated refuses.

Errors (InvalidArgument): `key` has not two elements; `levels` or `block_size` violate core/rotated_code.h.

values: Shape [n].
key: The key of the rotation. Shape [2].
levels: The positive levels, ascending; the others are their negatives. Shape [l], l a power of two up to 128.
block_size: A power of two up to 2^20; at least 8, where there is more than one block. Shape [].
code: Shape [b]; b follows from n, T, l and `block_size`.
)doc");

REGISTER_OP("Fedplug>DecodeRotated")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("key: int64")
    .Input("levels: double")
    .Input("block_size: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(DecodeRotatedShape)
    .Doc(R"doc(
The inverse of Fedplug>EncodeRotated, up to the error of the levels, for untrusted bytes.

Allocates only after a check that the code has the length of `count` values.

Errors (InvalidArgument): the bytes are not what Fedplug>EncodeRotated writes for `count` values; those of
Fedplug>EncodeRotated.

code: Shape [b].
count: Below 2^31. Shape [].
key: As for Fedplug>EncodeRotated, like `levels` and `block_size`. Shape [2].
levels: Shape [l].
block_size: Shape [].
values: Finite; numbers too large for T become its largest number. Shape [count].
)doc");

}  // namespace
}  // namespace fedplug
