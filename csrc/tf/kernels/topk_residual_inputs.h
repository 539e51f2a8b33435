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
inline tensorflow::Status ReadTopKCount(const tensorflow::Tensor& k,
                                        std::int64_t* count) {
  TF_RETURN_IF_ERROR(ReadScalar(k, "k", count));
  if (*count >= 0) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument("k must be 0 or more, not ",
                                             *count);
}

inline tensorflow::Status CheckTopKElements(std::int64_t n) {
  if (n <= INT32_MAX) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument("n = ", n, " is not in [0, 2^31)");
}

// *n is the number of elements of all tensors of the list together.
inline tensorflow::Status CheckTopKListInputs(
    const tensorflow::OpInputList& deltas,
    const tensorflow::OpInputList& residuals, std::int64_t* n) {
  *n = 0;
  for (int t = 0; t < deltas.size(); ++t) {
    *n += deltas[t].NumElements();
    if (deltas[t].shape() == residuals[t].shape()) continue;
    return tensorflow::errors::InvalidArgument(
        "delta ", t, " has shape ", deltas[t].shape().DebugString(),
        " but its residual has ", residuals[t].shape().DebugString(),
        "; the two must be equal");
  }
  return CheckTopKElements(*n);
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_
