// Declares Fedplug>EncodeIndices and Fedplug>DecodeIndices: types, shapes,
// documentation. The layout of a code is described in core/index_code.h.
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
    .Attr("form: {'rice', 'bitpack', 'bitmap', 'shortest', 'gaps'} = 'rice'")
    .SetShapeFn(EncodeIndicesShape)
    .Doc(R"doc(
Writes strictly ascending indices as bytes.

Errors (InvalidArgument): `indices` do not ascend strictly or leave [0, size); `size` is 2^31 or more.

indices: Shape [c].
size: The number of elements the indices point into. Shape [].
code: Shape [b].
form: The layout, see core/index_code.h.
)doc");

REGISTER_OP("Fedplug>DecodeIndices")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .Attr("form: {'rice', 'bitpack', 'bitmap', 'shortest', 'gaps'} = 'rice'")
    .SetShapeFn(DecodeIndicesShape)
    .Doc(R"doc(
The inverse of Fedplug>EncodeIndices with the same form, for untrusted bytes.

Allocates only after a check that a code of this length can have `count` indices.

Errors (InvalidArgument): `count` is not in [0, size]; `size` is 2^31 or more; the bytes are not a code of `count`
indices below `size`.

code: Shape [b].
count: The number of indices in the code. Shape [].
size: The number of elements the indices point into. Shape [].
indices: Strictly ascending, in [0, size). Shape [count].
form: The layout, see core/index_code.h.
)doc");

}  // namespace
}  // namespace fedplug
