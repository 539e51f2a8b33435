// Declares Fedplug>SparseBody and Fedplug>SplitSparseBody: types, shapes,
// documentation. The layout of a body is described in core/sparse_form.h.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("Fedplug>SparseBody")
    .Input("count: int64")
    .Input("index_code: uint8")
    .Input("values: uint8")
    .Output("body: uint8")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle ignored;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ignored));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &ignored));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &ignored));
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return tensorflow::OkStatus();
    })
    .Doc(R"doc(
Concatenates the number of entries of a sparse payload, their index code and their values.

Errors (InvalidArgument): `count` is not in [0, 2^31).

count: The number of entries. Shape [].
index_code: The code of their indices. Shape [c].
values: The bytes of their values. Shape [v].
body: Shape [b].
)doc");

REGISTER_OP("Fedplug>SplitSparseBody")
    .Input("body: uint8")
    .Input("size: int64")
    .Output("count: int32")
    .Output("index_code: uint8")
    .Output("values: uint8")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle ignored;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ignored));
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(2, c->Vector(InferenceContext::kUnknownDim));
      return tensorflow::OkStatus();
    })
    .Doc(R"doc(
The inverse of Fedplug>SparseBody, for untrusted bytes.

Errors (InvalidArgument): the lengths cannot be read, are not in their fewest bytes, or do not fit the body or the
tensor.

body: Shape [b].
size: The number of elements of the tensor. Shape [].
count: The number of entries, in [0, size]. Shape [].
index_code: The code of their indices. Shape [c].
values: The bytes of their values. Shape [v].
)doc");

}  // namespace
}  // namespace fedplug
