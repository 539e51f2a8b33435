// The number of entries of a top-k selection, as far as it is known while a
// graph is being built.
#ifndef FEDPLUG_TF_OPS_TOPK_SHAPES_H_
#define FEDPLUG_TF_OPS_TOPK_SHAPES_H_

#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {

// min(k, n), if the input k and n are known. An unknown n is kUnknownDim.
inline tensorflow::Status NumSelected(
    tensorflow::shape_inference::InferenceContext* c, int k_input,
    std::int64_t n, tensorflow::shape_inference::DimensionHandle* selected) {
  *selected = c->UnknownDim();
  const tensorflow::Tensor* k_tensor = c->input_tensor(k_input);
  if (k_tensor == nullptr) return tensorflow::OkStatus();
  const std::int64_t k = k_tensor->scalar<std::int64_t>()();
  if (k < 0) {
    return tensorflow::errors::InvalidArgument("k must be 0 or more, not ", k);
  }
  if (n >= 0) *selected = c->MakeDim(std::min(k, n));
  return tensorflow::OkStatus();
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_OPS_TOPK_SHAPES_H_
