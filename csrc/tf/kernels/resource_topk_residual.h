// What Fedplug>ResourceTopKResidual does on any device before it runs: lock the
// variables, check the inputs, find the place of each new residual.
#ifndef FEDPLUG_TF_KERNELS_RESOURCE_TOPK_RESIDUAL_H_
#define FEDPLUG_TF_KERNELS_RESOURCE_TOPK_RESIDUAL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/topk_residual_inputs.h"
#include "tf/kernels/variables.h"

namespace fedplug {

// The k of all tensors together, or one for each.
struct TopKCounts {
  bool of_each;
  std::vector<std::int64_t> ks;  // one, or as many as there are tensors
};

// REQUIRES: k is in host memory
inline tensorflow::Status ReadTopKCounts(const tensorflow::Tensor& k,
                                         int tensors, TopKCounts* counts) {
  using tensorflow::errors::InvalidArgument;
  counts->of_each = k.dims() == 1;
  if (k.dims() > 1 || (counts->of_each && k.NumElements() != tensors)) {
    return InvalidArgument("k must be a scalar or have ", tensors,
                           " elements, one for each tensor; its shape is ",
                           k.shape().DebugString());
  }
  const auto ks = k.flat<std::int64_t>();
  counts->ks.assign(ks.data(), ks.data() + ks.size());
  for (const std::int64_t each : counts->ks) {
    if (each < 0) return InvalidArgument("k must be 0 or more, not ", each);
  }
  return tensorflow::OkStatus();
}

// One call of the op. The variables stay locked as long as it lives.
template <typename T>
struct ResourceTopKResidualCall {
  LockedVariables residuals;
  TopKCounts counts;
  std::vector<TensorUpdate<CoreType<T>>> updates;

  // REQUIRES: k is in host memory
  tensorflow::Status Prepare(tensorflow::OpKernelContext* context) {
    tensorflow::OpInputList deltas;
    TF_RETURN_IF_ERROR(context->input_list("deltas", &deltas));
    const int tensors = deltas.size();
    TF_RETURN_IF_ERROR(
        ReadTopKCounts(context->input(2 * tensors), tensors, &counts));
    TF_RETURN_IF_ERROR(residuals.Lock(context, 0, tensors,
                                      tensorflow::DataTypeToEnum<T>::value));
    for (int t = 0; t < tensors; ++t) {
      TF_RETURN_IF_ERROR(CheckTopKListInput(t, deltas[t], residuals.Value(t)));
    }
    for (int t = 0; t < tensors; ++t) {
      tensorflow::Tensor* new_residual;
      TF_RETURN_IF_ERROR(
          residuals.ForwardOrAllocate(context, t, &new_residual));
      updates.push_back(
          {Elements<T>(deltas[t]), Elements<T>(residuals.Value(t)),
           MutableElements<T>(new_residual), deltas[t].NumElements()});
    }
    return tensorflow::OkStatus();
  }

  // The elements that share a k.
  std::vector<std::int64_t> Sizes() const {
    std::vector<std::int64_t> sizes(counts.ks.size());
    for (std::size_t t = 0; t < updates.size(); ++t) {
      sizes[counts.of_each ? t : 0] += updates[t].n;
    }
    return sizes;
  }

  std::int64_t NumSelected() const {
    std::int64_t selected = 0;
    const std::vector<std::int64_t> sizes = Sizes();
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      selected += std::min(counts.ks[s], sizes[s]);
    }
    return selected;
  }
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_RESOURCE_TOPK_RESIDUAL_H_
