// Declares Fedplug>AllFinite and Fedplug>FiniteFromBytes: types and shapes.
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
    .SetShapeFn(AllFiniteShape);

REGISTER_OP("Fedplug>FiniteFromBytes")
    .Input("data: uint8")
    .Input("count: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(FiniteFromBytesShape);

}  // namespace
}  // namespace fedplug
