// Declares Fedplug>DrawIndices: types and shapes. Which indices are drawn is
// specified in core/random_indices.h.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status DrawIndicesShape(InferenceContext* c) {
  ShapeHandle ignored;
  for (int i = 0; i < 3; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &ignored));
  }
  DimensionHandle count;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(1, &count));
  c->set_output(0, c->Vector(count));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>DrawIndices")
    .Input("seed: int64")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .SetShapeFn(DrawIndicesShape);

}  // namespace
}  // namespace fedplug
