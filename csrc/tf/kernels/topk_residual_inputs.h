// What Fedplug>TopKResidual and Fedplug>TopKResidualOfAll ask of their
// attribute and their inputs, on any device.
#ifndef FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_
#define FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_

#include <cstdint>
#include <string>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"

namespace fedplug {

inline tensorflow::Status GetNonFinitePolicy(
    tensorflow::OpKernelConstruction* context, NonFinitePolicy* policy) {
  std::string name;
  TF_RETURN_IF_ERROR(context->GetAttr("on_nonfinite", &name));
  *policy = name == "drop" ? NonFinitePolicy::kDrop : NonFinitePolicy::kError;
  return tensorflow::OkStatus();
}

// REQUIRES: k is in host memory
inline tensorflow::Status CheckTopKCount(const tensorflow::Tensor& k) {
  std::int64_t count;
  TF_RETURN_IF_ERROR(ReadScalar(k, "k", &count));
  if (count >= 0) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument("k must be 0 or more, not ",
                                             count);
}

// REQUIRES: k is in host memory
inline tensorflow::Status CheckTopKResidualInputs(
    tensorflow::OpKernelContext* context) {
  TF_RETURN_IF_ERROR(RequireSameShape(context->input(0), context->input(1)));
  return CheckTopKCount(context->input(2));
}

// Of each tensor of a list.
inline tensorflow::Status CheckTopKListInputs(
    const tensorflow::OpInputList& deltas,
    const tensorflow::OpInputList& residuals) {
  for (int t = 0; t < deltas.size(); ++t) {
    if (deltas[t].shape() == residuals[t].shape()) continue;
    return tensorflow::errors::InvalidArgument(
        "delta ", t, " has shape ", deltas[t].shape().DebugString(),
        " but its residual has ", residuals[t].shape().DebugString(),
        "; the two must be equal");
  }
  return tensorflow::OkStatus();
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_
