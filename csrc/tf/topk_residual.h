// Fedplug>GroupedTopKResidual on any device: checks the inputs and allocates the outputs.
#ifndef FEDPLUG_TF_TOPK_RESIDUAL_H_
#define FEDPLUG_TF_TOPK_RESIDUAL_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/topk_residual.h"
#include "tf/op.h"

namespace fedplug {

template <typename T>
struct GroupedTopKArguments {
  std::vector<TensorUpdate<CoreType<T>>> updates;
  std::int64_t k;
  Tensor* values;
  Tensor* indices;
  Tensor* row_splits;

  // REQUIRES: k is in host memory
  tensorflow::Status Open(OpKernelContext* context) {
    tensorflow::OpInputList deltas, residuals;
    TF_RETURN_IF_ERROR(context->input_list("deltas", &deltas));
    TF_RETURN_IF_ERROR(context->input_list("residuals", &residuals));
    const int tensors = deltas.size();
    std::int64_t n = 0;
    for (int t = 0; t < tensors; ++t) {
      TF_RETURN_IF_ERROR(RequireSameShape(deltas[t], residuals[t],
                                          "delta " + std::to_string(t)));
      n += deltas[t].NumElements();
    }
    TF_RETURN_IF_ERROR(ToTensorFlow(CheckInt32("n", n)));
    TF_RETURN_IF_ERROR(ReadScalar(context->input(2 * tensors), "k", &k));
    if (k < 0) return InvalidArgument("k must be 0 or more, not ", k);

    for (int t = 0; t < tensors; ++t) {
      Tensor* new_residual;
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
