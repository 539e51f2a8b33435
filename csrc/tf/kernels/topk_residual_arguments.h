// The inputs of Fedplug>TopKResidual and Fedplug>TopKResidualOfAll, checked,
// and their outputs, allocated, on any device. Must not know how entries are
// selected.
#ifndef FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_ARGUMENTS_H_
#define FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_ARGUMENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {

// Of one tensor.
template <typename T>
struct TopKArguments {
  TensorUpdate<CoreType<T>> update;
  std::int64_t k;
  tensorflow::Tensor* values;
  tensorflow::Tensor* indices;
  tensorflow::Tensor* non_finite;

  tensorflow::Status Open(tensorflow::OpKernelContext* context) {
    const tensorflow::Tensor& delta = context->input(0);
    const tensorflow::Tensor& residual = context->input(1);
    const std::int64_t n = delta.NumElements();
    TF_RETURN_IF_ERROR(RequireSameShape(delta, residual));
    TF_RETURN_IF_ERROR(CheckTopKElements(n));
    TF_RETURN_IF_ERROR(ReadTopKCount(context->input(2), &k));

    const tensorflow::TensorShape selected({std::min(k, n)});
    tensorflow::Tensor* new_residual;
    TF_RETURN_IF_ERROR(AllocateOutput(context, 0, selected, &values));
    TF_RETURN_IF_ERROR(AllocateOutput(context, 1, selected, &indices));
    TF_RETURN_IF_ERROR(ForwardInputOrAllocateOutput(
        context, 1, 2, residual.shape(), &new_residual));
    TF_RETURN_IF_ERROR(context->allocate_output(3, {}, &non_finite));
    update = {Elements<T>(delta), Elements<T>(residual),
              MutableElements<T>(new_residual), n};
    return tensorflow::OkStatus();
  }
};

// Of the tensors of a list.
template <typename T>
struct TopKListArguments {
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

#endif  // FEDPLUG_TF_KERNELS_TOPK_RESIDUAL_ARGUMENTS_H_
