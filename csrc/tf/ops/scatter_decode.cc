// Declares Fedplug>ScatterDecodeAdd, Fedplug>ResourceScatterDecodeAdd and
// Fedplug>ScatterDecode: types, shapes, documentation.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/ops/variables.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The payloads are the inputs after the first.
tensorflow::Status CheckPayloadShapes(InferenceContext* c) {
  ShapeHandle values, indices, row_splits, weights;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &values));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &indices));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &row_splits));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 1, &weights));
  ShapeHandle entries;
  TF_RETURN_IF_ERROR(c->Merge(values, indices, &entries));
  DimensionHandle payloads;
  TF_RETURN_IF_ERROR(c->Subtract(c->Dim(row_splits, 0), 1, &payloads));
  return c->Merge(payloads, c->Dim(weights, 0), &payloads);
}

tensorflow::Status ScatterDecodeAddShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckPayloadShapes(c));
  c->set_output(0, c->input(0));
  return tensorflow::OkStatus();
}

tensorflow::Status ResourceScatterDecodeAddShape(InferenceContext* c) {
  ShapeHandle accumulator;
  TF_RETURN_IF_ERROR(ShapeOfVariable(c, 0, &accumulator));
  return CheckPayloadShapes(c);
}

tensorflow::Status ScatterDecodeShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ignored));
  TF_RETURN_IF_ERROR(CheckPayloadShapes(c));
  DimensionHandle size;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(0, &size));
  c->set_output(0, c->Vector(size));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>ScatterDecodeAdd")
    .Input("accumulator: T")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Output("sum: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(ScatterDecodeAddShape)
    .Doc(R"doc(
Adds p sparse payloads into one dense accumulator, without ever building a dense payload.

sum is `accumulator`, flattened, after sum[indices[j]] += weights[i] * values[j] for every payload i, in order, and
every entry j in [row_splits[i], row_splits[i + 1]). Each product and each sum is rounded once. The result does not
depend on the number of threads. The buffer of `accumulator` is reused if TensorFlow allows it; the cost beyond
that is O(e). Not differentiable.

Errors (InvalidArgument), all found before anything is written: `values` and `indices` differ in length;
`row_splits` does not ascend from 0 to e or has not one element more than `weights`; a payload's indices do not
ascend strictly or leave [0, n), in which case the payload is named; there are 2^31 elements or more.

accumulator: The dense sum so far. Shape [S], any shape of n elements.
values: The values of all payloads, one payload after the other. Shape [e].
indices: Their flat indices, strictly ascending within a payload. Shape [e].
row_splits: Where each payload starts and ends in `values`. Shape [p + 1].
weights: The factor of each payload. Shape [p].
sum: The new accumulator. Shape [S].
)doc");

REGISTER_OP("Fedplug>ResourceScatterDecodeAdd")
    .Input("accumulator: resource")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetIsStateful()
    .SetShapeFn(ResourceScatterDecodeAddShape)
    .Doc(R"doc(
Adds p sparse payloads into a variable, in place: afterwards it holds the result of ScatterDecodeAdd.

The variable is locked meanwhile. Values read from it earlier do not change: it then gets a new buffer. After
an error the variable is unchanged.

Errors (FailedPrecondition): the variable is not initialized.

Errors (InvalidArgument): the variable is not one of T; those of ScatterDecodeAdd.

accumulator: A variable with the dense sum so far. Shape [S], any shape of n elements.
values: The values of all payloads, one payload after the other. Shape [e].
indices: Their flat indices, strictly ascending within a payload. Shape [e].
row_splits: Where each payload starts and ends in `values`. Shape [p + 1].
weights: The factor of each payload. Shape [p].
)doc");

REGISTER_OP("Fedplug>ScatterDecode")
    .Input("size: int64")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Output("sum: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(ScatterDecodeShape)
    .Doc(R"doc(
The dense sum of p sparse payloads: bit for bit the result of ScatterDecodeAdd on zeros, without reading or copying them.

Errors (InvalidArgument): those of ScatterDecodeAdd; not 0 <= size < 2^31.

size: The number of elements of the sum. Shape [].
values: The values of all payloads, one payload after the other. Shape [e].
indices: Their indices in the sum, strictly ascending within a payload. Shape [e].
row_splits: Where each payload starts and ends in `values`. Shape [p + 1].
weights: The factor of each payload. Shape [p].
sum: Shape [size].
)doc");

}  // namespace
}  // namespace fedplug
