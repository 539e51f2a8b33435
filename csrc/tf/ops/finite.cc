// Declares Fedplug>AllFinite and Fedplug>FiniteFromBytes: types, shapes,
// documentation.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status AllFiniteShape(InferenceContext* c) {
  c->set_output(0, c->Scalar());
  return tensorflow::OkStatus();
}

tensorflow::Status FiniteFromBytesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  DimensionHandle count;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(1, &count));
  c->set_output(0, c->Vector(count));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>AllFinite")
    .Input("xs: T")
    .Output("finite: bool")
    .Attr("T: list({half, bfloat16, float, double}) >= 1")
    .SetShapeFn(AllFiniteShape)
    .Doc(R"doc(
Tells whether all elements of all tensors are finite.

xs: Any shapes.
finite: Shape [].
)doc");

REGISTER_OP("Fedplug>FiniteFromBytes")
    .Input("data: uint8")
    .Input("count: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(FiniteFromBytesShape)
    .Doc(R"doc(
Reads little-endian floats from untrusted bytes.

Errors (InvalidArgument): `data` has another length, or a value is NaN or infinite.

data: Shape [b].
count: The number of values. Shape [].
values: Shape [count], in the buffer of `data`.
)doc");

}  // namespace
}  // namespace fedplug
