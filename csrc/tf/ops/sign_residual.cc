// Declares Fedplug>SignResidual: types, shapes, documentation. Must not know
// how it is computed.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status SignResidualShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, update);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>SignResidual")
    .Input("delta: T")
    .Input("residual: T")
    .Output("code: uint8")
    .Output("new_residual: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(SignResidualShape)
    .Doc(R"doc(
Quantizes an update to the signs of its entries and their mean magnitude, and keeps the error for the next round.

With a = delta + residual: `code` is what Fedplug>EncodeValues writes for a, flattened, with the form 'sign', and
`new_residual` is a minus what Fedplug>DecodeValues makes of it. The buffer of `residual` is reused for `new_residual`
where TensorFlow allows it. Not differentiable.

Errors (InvalidArgument): the shapes of `delta` and `residual` differ; there are 2^31 elements or more; an entry of a is
NaN or infinite.

delta: The update of this round. Shape [S], any shape of n elements.
residual: What earlier rounds left behind. Shape [S].
code: Shape [b]; b follows from n and T.
new_residual: What is left for the next round. Shape [S].
)doc");

}  // namespace
}  // namespace fedplug
