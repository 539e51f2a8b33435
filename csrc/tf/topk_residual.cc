// Fedplug>GroupedTopKResidual: its declaration, and the kernel on the CPU.
#include "tf/topk_residual.h"

#include <algorithm>
#include <cstdint>

#include "tf/parallel.h"

namespace fedplug {
namespace {

// min(k, n), if the input k and n are known. An unknown n is kUnknownDim.
tensorflow::Status NumSelected(InferenceContext* c, int k_input, std::int64_t n,
                               DimensionHandle* selected) {
  *selected = c->UnknownDim();
  const Tensor* k_tensor = c->input_tensor(k_input);
  if (k_tensor == nullptr) return tensorflow::OkStatus();
  const std::int64_t k = k_tensor->scalar<std::int64_t>()();
  if (k < 0) {
    return InvalidArgument("k must be 0 or more, not ", k);
  }
  if (n >= 0) *selected = c->MakeDim(std::min(k, n));
  return tensorflow::OkStatus();
}

tensorflow::Status GroupedTopKResidualShape(InferenceContext* c) {
  const int tensors = (c->num_inputs() - 1) / 2;
  std::int64_t n = 0;
  for (int t = 0; t < tensors; ++t) {
    ShapeHandle update;
    TF_RETURN_IF_ERROR(c->Merge(c->input(t), c->input(tensors + t), &update));
    c->set_output(3 + t, update);
    const DimensionHandle size = c->NumElements(update);
    n = n < 0 || !c->ValueKnown(size) ? -1 : n + c->Value(size);
  }
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * tensors), 0, &scalar));
  DimensionHandle selected;
  TF_RETURN_IF_ERROR(NumSelected(c, 2 * tensors, n, &selected));
  c->set_output(0, c->Vector(selected));
  c->set_output(1, c->Vector(selected));
  c->set_output(2, c->Vector(tensors + 1));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>GroupedTopKResidual")
    .Input("deltas: N * T")
    .Input("residuals: N * T")
    .Input("k: int64")
    .Output("values: T")
    .Output("indices: int32")
    .Output("row_splits: int64")
    .Output("new_residuals: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .SetShapeFn(GroupedTopKResidualShape);

template <typename T>
tensorflow::Status ComputeGroupedTopKResidual(OpKernelContext* context) {
  GroupedTopKArguments<T> arguments;
  TF_RETURN_IF_ERROR(arguments.Open(context));
  IntraOpPool pool(context);
  std::int64_t non_finite;
  return ToTensorFlow(GroupedTopKResidual(
      arguments.updates, arguments.k, pool,
      MutableElements<T>(arguments.values),
      MutableElements<std::int32_t>(arguments.indices),
      MutableElements<std::int64_t>(arguments.row_splits), &non_finite));
}

FEDPLUG_REGISTER_WIDE("Fedplug>GroupedTopKResidual",
                      ComputeGroupedTopKResidual);

}  // namespace
}  // namespace fedplug
