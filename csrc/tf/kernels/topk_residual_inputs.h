// Checks of the attribute and the inputs of the top-k ops, on any device.
#ifndef FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_
#define FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_

#include <cstdint>
#include <string>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"

namespace fedplug {

// An op with the attribute on_nonfinite.
class TopKOp : public tensorflow::OpKernel {
 public:
  explicit TopKOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    std::string name;
    OP_REQUIRES_OK(context, context->GetAttr("on_nonfinite", &name));
    policy_ = name == "drop" ? NonFinitePolicy::kDrop : NonFinitePolicy::kError;
  }

 protected:
  NonFinitePolicy policy_;
};

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

// Checks the shapes of tensor t of a list.
inline tensorflow::Status CheckTopKListInput(
    int t, const tensorflow::Tensor& delta,
    const tensorflow::Tensor& residual) {
  if (delta.shape() == residual.shape()) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(
      "delta ", t, " has shape ", delta.shape().DebugString(),
      " but its residual has ", residual.shape().DebugString(),
      "; the two must be equal");
}

// *n is the number of elements of all tensors of the list together.
inline tensorflow::Status CheckTopKListInputs(
    const tensorflow::OpInputList& deltas,
    const tensorflow::OpInputList& residuals, std::int64_t* n) {
  *n = 0;
  for (int t = 0; t < deltas.size(); ++t) {
    TF_RETURN_IF_ERROR(CheckTopKListInput(t, deltas[t], residuals[t]));
    *n += deltas[t].NumElements();
  }
  return CheckTopKElements(*n);
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_INPUTS_H_
