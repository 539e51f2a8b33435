// Declares Fedplug>ResourceTopKResidual: types and shapes.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"
#include "tf/ops/variables.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

constexpr std::int64_t kUnknown = InferenceContext::kUnknownDim;

// The number of selected entries, as far as it is known while the graph is
// being built. `sizes` are the elements of each tensor.
tensorflow::Status NumSelected(InferenceContext* c, int k_input,
                               const std::vector<std::int64_t>& sizes,
                               DimensionHandle* selected) {
  *selected = c->UnknownDim();
  const tensorflow::Tensor* k_tensor = c->input_tensor(k_input);
  if (k_tensor == nullptr) return tensorflow::OkStatus();
  const auto ks = k_tensor->flat<std::int64_t>();
  for (std::int64_t t = 0; t < ks.size(); ++t) {
    if (ks(t) >= 0) continue;
    return tensorflow::errors::InvalidArgument("k must be 0 or more, not ",
                                               ks(t));
  }
  if (std::count(sizes.begin(), sizes.end(), kUnknown) > 0) {
    return tensorflow::OkStatus();
  }
  const bool a_k_each = k_tensor->dims() == 1;
  std::int64_t n = 0, each = 0;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    n += sizes[t];
    if (a_k_each) each += std::min(ks(static_cast<std::int64_t>(t)), sizes[t]);
  }
  *selected = c->MakeDim(a_k_each ? each : std::min(ks(0), n));
  return tensorflow::OkStatus();
}

tensorflow::Status ResourceTopKResidualShape(InferenceContext* c) {
  const int tensors = (c->num_inputs() - 1) / 2;
  std::vector<std::int64_t> sizes;
  for (int t = 0; t < tensors; ++t) {
    ShapeHandle residual, update;
    TF_RETURN_IF_ERROR(ShapeOfVariable(c, t, &residual));
    TF_RETURN_IF_ERROR(c->Merge(residual, c->input(tensors + t), &update));
    sizes.push_back(InferenceContext::Value(c->NumElements(update)));
  }
  ShapeHandle k;
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(2 * tensors), 1, &k));
  if (c->RankKnown(k) && c->Rank(k) == 1) {
    DimensionHandle each;
    TF_RETURN_IF_ERROR(c->WithValue(c->Dim(k, 0), tensors, &each));
  }
  DimensionHandle selected;
  TF_RETURN_IF_ERROR(NumSelected(c, 2 * tensors, sizes, &selected));
  c->set_output(0, c->Vector(selected));
  c->set_output(1, c->Vector(selected));
  c->set_output(2, c->Vector(tensors + 1));
  c->set_output(3, c->Scalar());
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>ResourceTopKResidual")
    .Input("residuals: N * resource")
    .Input("deltas: N * T")
    .Input("k: int64")
    .Output("values: T")
    .Output("indices: int32")
    .Output("row_splits: int64")
    .Output("nonfinite: int64")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .Attr("on_nonfinite: {'error', 'drop'} = 'error'")
    .SetIsStateful()
    .SetShapeFn(ResourceTopKResidualShape);

}  // namespace
}  // namespace fedplug
