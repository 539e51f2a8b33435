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
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"

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

// The inputs after the first, in the order in which the decoders take them.
template <typename T>
struct PayloadInputs {
  const CoreType<T>* values;
  const std::int32_t* indices;
  std::int64_t entries;
  const std::int64_t* row_splits;
  std::int64_t payloads;
  const CoreType<T>* weights;

  // REQUIRES: CheckPayloadInputs(context) was OK
  static PayloadInputs Of(tensorflow::OpKernelContext* context) {
    const tensorflow::Tensor& values = context->input(1);
    const tensorflow::Tensor& weights = context->input(4);
    return {
        Elements<T>(values),   context->input(2).flat<std::int32_t>().data(),
        values.NumElements(),  context->input(3).flat<std::int64_t>().data(),
        weights.NumElements(), Elements<T>(weights)};
  }
};

template <typename T, typename Device>
class ScatterDecodeAddOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    const tensorflow::Tensor& accumulator = context->input(0);
    // A refused payload leaves the accumulator unchanged, so its own buffer can
    // be used.
    tensorflow::Tensor* sum;
    OP_REQUIRES_OK(context, ForwardInputOrAllocateOutput(
                                context, 0, 0, accumulator.shape(), &sum));
    if (!sum->SharesBufferWith(accumulator)) {
      OP_REQUIRES_OK(context, Device::Copy(context, accumulator, sum));
    }
    OP_REQUIRES_OK(context,
                   Device::Add(context, PayloadInputs<T>::Of(context), sum));
  }
};

template <typename T, typename Device>
class ScatterDecodeOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    std::int64_t size;
    OP_REQUIRES_OK(context, ReadScalar(context->input(0), "size", &size));
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    OP_REQUIRES_OK(context, ToTensorFlow(CheckDenseSize(size)));
    tensorflow::Tensor* sum;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {size}, &sum));
    OP_REQUIRES_OK(context,
                   Device::Decode(context, PayloadInputs<T>::Of(context), sum));
  }
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_SCATTER_DECODE_H_
