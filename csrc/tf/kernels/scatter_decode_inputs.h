// Checks of the shapes of the payloads of Fedplug>ScatterDecodeAdd and
// Fedplug>ScatterDecode, which are the inputs after the first, on any device.
#ifndef FEDPLUG_TF_KERNELS_SCATTER_DECODE_INPUTS_H_
#define FEDPLUG_TF_KERNELS_SCATTER_DECODE_INPUTS_H_

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"

namespace fedplug {

inline tensorflow::Status CheckPayloadInputs(
    tensorflow::OpKernelContext* context) {
  using tensorflow::errors::InvalidArgument;
  TF_RETURN_IF_ERROR(RequireVector(context->input(1), "values"));
  TF_RETURN_IF_ERROR(RequireVector(context->input(2), "indices"));
  TF_RETURN_IF_ERROR(RequireVector(context->input(3), "row_splits"));
  TF_RETURN_IF_ERROR(RequireVector(context->input(4), "weights"));
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

#endif  // FEDPLUG_TF_KERNELS_SCATTER_DECODE_INPUTS_H_
