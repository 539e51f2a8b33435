// What Fedplug>TopKResidual and Fedplug>TopKResidualOfAll ask of their
// attribute and their inputs, on any device.
#ifndef FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_
#define FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_

#include <cstdint>
#include <string>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"

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
  using tensorflow::errors::InvalidArgument;
  if (!tensorflow::TensorShapeUtils::IsScalar(k.shape())) {
    return InvalidArgument("k must be a scalar, not of shape ",
                           k.shape().DebugString());
  }
  if (k.scalar<std::int64_t>()() < 0) {
    return InvalidArgument("k must be 0 or more, not ",
                           k.scalar<std::int64_t>()());
  }
  return tensorflow::OkStatus();
}

// REQUIRES: k is in host memory
inline tensorflow::Status CheckTopKResidualInputs(
    tensorflow::OpKernelContext* context) {
  const tensorflow::TensorShape& delta = context->input(0).shape();
  const tensorflow::TensorShape& residual = context->input(1).shape();
  if (delta != residual) {
    return tensorflow::errors::InvalidArgument(
        "delta has shape ", delta.DebugString(), " but residual has ",
        residual.DebugString(), "; the two must be equal");
  }
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
