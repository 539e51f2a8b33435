// The inputs of Fedplug>GroupedTopKResidual, checked, and its outputs,
// allocated, on any device.
#ifndef FEDPLUG_TF_KERNELS_GROUPED_TOPK_RESIDUAL_H_
#define FEDPLUG_TF_KERNELS_GROUPED_TOPK_RESIDUAL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {

template <typename T>
struct GroupedTopKArguments {
  std::vector<TensorUpdate<CoreType<T>>> updates;
  std::int64_t k;
  tensorflow::Tensor* values;
  tensorflow::Tensor* indices;
  tensorflow::Tensor* row_splits;
  tensorflow::Tensor* non_finite;

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
    TF_RETURN_IF_ERROR(context->allocate_output(2, {tensors + 1}, &row_splits));
    return context->allocate_output(3 + tensors, {}, &non_finite);
  }
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_GROUPED_TOPK_RESIDUAL_H_
