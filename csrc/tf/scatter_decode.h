// Fedplug>ScatterDecodeAdd and Fedplug>ScatterDecode on any device: check,
// allocate, and call these functions of the device:
//   Device::Copy(context, from, to)         the elements of one tensor
//   Device::Add(context, payloads, sum)     to the contents of `sum`, which is
//                                           untouched if one is refused
//   Device::Decode(context, payloads, sum)  whatever was in `sum`
#ifndef FEDPLUG_TF_SCATTER_DECODE_H_
#define FEDPLUG_TF_SCATTER_DECODE_H_

#include <cstdint>

#include "core/scatter_decode.h"
#include "tf/op.h"

namespace fedplug {

// The inputs after the first, in the order in which the decoders take them.
template <typename T>
struct PayloadInputs {
  const CoreType<T>* values;
  const std::int32_t* indices;
  std::int64_t entries;
  const std::int64_t* row_splits;
  std::int64_t payloads;
  const CoreType<T>* weights;

  tensorflow::Status Read(OpKernelContext* context) {
    TF_RETURN_IF_ERROR(RequireVector(context->input(1), "values"));
    TF_RETURN_IF_ERROR(RequireVector(context->input(2), "indices"));
    TF_RETURN_IF_ERROR(RequireVector(context->input(3), "row_splits"));
    TF_RETURN_IF_ERROR(RequireVector(context->input(4), "weights"));
    values = Elements<T>(context->input(1));
    indices = Elements<std::int32_t>(context->input(2));
    entries = context->input(1).NumElements();
    row_splits = context->input(3).flat<std::int64_t>().data();
    payloads = context->input(4).NumElements();
    weights = Elements<T>(context->input(4));
    const std::int64_t places = context->input(2).NumElements();
    const std::int64_t splits = context->input(3).NumElements();
    if (places != entries) {
      return InvalidArgument("there are ", entries, " values but ", places,
                             " indices");
    }
    if (splits != payloads + 1) {
      return InvalidArgument("row_splits has ", splits, " elements; with ",
                             payloads, " weights it must have ", payloads + 1);
    }
    return tensorflow::OkStatus();
  }
};

template <typename T, typename Device>
tensorflow::Status ComputeScatterDecodeAdd(OpKernelContext* context) {
  PayloadInputs<T> payloads;
  TF_RETURN_IF_ERROR(payloads.Read(context));
  const Tensor& accumulator = context->input(0);
  // A refused payload leaves the accumulator unchanged, so its own buffer can
  // be used.
  Tensor* sum;
  TF_RETURN_IF_ERROR(
      ForwardInputOrAllocateOutput(context, 0, 0, accumulator.shape(), &sum));
  if (!sum->SharesBufferWith(accumulator)) {
    TF_RETURN_IF_ERROR(Device::Copy(context, accumulator, sum));
  }
  return Device::Add(context, payloads, sum);
}

template <typename T, typename Device>
tensorflow::Status ComputeScatterDecode(OpKernelContext* context) {
  std::int64_t size;
  TF_RETURN_IF_ERROR(ReadScalar(context->input(0), "size", &size));
  PayloadInputs<T> payloads;
  TF_RETURN_IF_ERROR(payloads.Read(context));
  TF_RETURN_IF_ERROR(ToTensorFlow(CheckDenseSize(size)));
  Tensor* sum;
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {size}, &sum));
  return Device::Decode(context, payloads, sum);
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_SCATTER_DECODE_H_
