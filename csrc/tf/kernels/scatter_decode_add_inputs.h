// What Fedplug>ScatterDecodeAdd asks of the shapes of its inputs, on any
// device.
#ifndef FEDPLUG_TF_KERNELS_SCATTER_DECODE_ADD_INPUTS_H_
#define FEDPLUG_TF_KERNELS_SCATTER_DECODE_ADD_INPUTS_H_

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"

namespace fedplug {

inline tensorflow::Status CheckScatterDecodeAddInputs(
    tensorflow::OpKernelContext* context) {
  using tensorflow::errors::InvalidArgument;
  constexpr const char* kInputs[] = {"accumulator", "values", "indices",
                                     "row_splits", "weights"};
  for (int i = 1; i < context->num_inputs(); ++i) {
    const tensorflow::TensorShape& shape = context->input(i).shape();
    if (!tensorflow::TensorShapeUtils::IsVector(shape)) {
      return InvalidArgument(kInputs[i], " must be a vector, not of shape ",
                             shape.DebugString());
    }
  }
  const std::int64_t entries = context->input(1).NumElements();
  const std::int64_t indices = context->input(2).NumElements();
  const std::int64_t splits = context->input(3).NumElements();
  const std::int64_t payloads = context->input(4).NumElements();
  if (indices != entries) {
    return InvalidArgument("there are ", entries, " values but ", indices,
                           " indices");
  }
  if (splits != payloads + 1) {
    return InvalidArgument("row_splits has ", splits, " elements; with ",
                           payloads, " weights it must have ", payloads + 1);
  }
  return tensorflow::OkStatus();
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_SCATTER_DECODE_ADD_INPUTS_H_
