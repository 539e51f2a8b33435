// Declares Fedplug>SparseBody and Fedplug>SplitSparseBody: types and shapes.
// The layout of a body is described in docs/wire-format.md.
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
    });

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
    });

}  // namespace
}  // namespace fedplug
