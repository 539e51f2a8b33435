// The first part of Fedplug>ResourceTopKResidual on any device: locks the
// variables, checks the inputs, allocates the outputs.
#ifndef FEDPLUG_TF_KERNELS_RESOURCE_TOPK_RESIDUAL_H_
#define FEDPLUG_TF_KERNELS_RESOURCE_TOPK_RESIDUAL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/topk_residual_inputs.h"
#include "tf/kernels/variables.h"

namespace fedplug {

// The k of all tensors together, or one for each.
struct TopKCounts {
  bool a_k_each;
  std::vector<std::int64_t> ks;  // one, or as many as there are tensors
};

// REQUIRES: k is in host memory
inline tensorflow::Status ReadTopKCounts(const tensorflow::Tensor& k,
                                         int tensors, TopKCounts* counts) {
  using tensorflow::errors::InvalidArgument;
  counts->a_k_each = k.dims() == 1;
  if (k.dims() > 1 || (counts->a_k_each && k.NumElements() != tensors)) {
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
  tensorflow::Tensor* values;
  tensorflow::Tensor* indices;
  tensorflow::Tensor* row_splits;
  tensorflow::Tensor* non_finite;

  // REQUIRES: k is in host memory
  tensorflow::Status Open(tensorflow::OpKernelContext* context) {
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
    return AllocateOutputs(context);
  }

  tensorflow::Status AllocateOutputs(tensorflow::OpKernelContext* context) {
    std::vector<std::int64_t> sizes(counts.ks.size());  // of what shares a k
    for (std::size_t t = 0; t < updates.size(); ++t) {
      sizes[counts.a_k_each ? t : 0] += updates[t].n;
    }
    std::int64_t entries = 0;
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      TF_RETURN_IF_ERROR(CheckTopKElements(sizes[s]));
      entries += std::min(counts.ks[s], sizes[s]);
    }
    const tensorflow::TensorShape selected({entries});
    const auto splits = static_cast<std::int64_t>(updates.size() + 1);
    TF_RETURN_IF_ERROR(AllocateOutput(context, 0, selected, &values));
    TF_RETURN_IF_ERROR(AllocateOutput(context, 1, selected, &indices));
    TF_RETURN_IF_ERROR(context->allocate_output(2, {splits}, &row_splits));
    return context->allocate_output(3, {}, &non_finite);
  }
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_RESOURCE_TOPK_RESIDUAL_H_
