// Fedplug>GroupedTopKResidual on any device: checks the inputs and allocates the outputs.
#ifndef FEDPLUG_TF_TOPK_RESIDUAL_H_
#define FEDPLUG_TF_TOPK_RESIDUAL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"

namespace fedplug {

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

template <typename T>
struct GroupedTopKArguments {
  std::vector<TensorUpdate<CoreType<T>>> updates;
  std::int64_t k;
  tensorflow::Tensor* values;
  tensorflow::Tensor* indices;
  tensorflow::Tensor* row_splits;

  tensorflow::Status Open(tensorflow::OpKernelContext* context) {
    tensorflow::OpInputList deltas, residuals;
    TF_RETURN_IF_ERROR(context->input_list("deltas", &deltas));
    TF_RETURN_IF_ERROR(context->input_list("residuals", &residuals));
    const int tensors = deltas.size();
    std::int64_t n;
    TF_RETURN_IF_ERROR(CheckTopKListInputs(deltas, residuals, &n));
    TF_RETURN_IF_ERROR(ReadTopKCount(context->input(2 * tensors), &k));

    for (int t = 0; t < tensors; ++t) {
      tensorflow::Tensor* new_residual;
      TF_RETURN_IF_ERROR(ForwardInputOrAllocateOutput(
          context, tensors + t, 3 + t, residuals[t].shape(), &new_residual));
      updates.push_back({Elements<T>(deltas[t]), Elements<T>(residuals[t]),
                         MutableElements<T>(new_residual),
                         deltas[t].NumElements()});
    }
    const tensorflow::TensorShape selected({std::min(k, n)});
    TF_RETURN_IF_ERROR(AllocateOutput(context, 0, selected, &values));
    TF_RETURN_IF_ERROR(AllocateOutput(context, 1, selected, &indices));
    return context->allocate_output(2, {tensors + 1}, &row_splits);
  }
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_TOPK_RESIDUAL_H_
