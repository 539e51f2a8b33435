// Fedplug>ScatterDecodeAdd, Fedplug>ResourceScatterDecodeAdd and
// Fedplug>ScatterDecode on any device: check, allocate, hand over to what the
// device has for it:
//   Device::Copy(context, from, to)         the elements of one tensor
//   Device::Add(context, payloads, sum)     to what is in `sum`, which is
//                                           untouched if one is refused
//   Device::Decode(context, payloads, sum)  whatever was in `sum`
#ifndef FEDPLUG_TF_KERNELS_SCATTER_DECODE_OPS_H_
#define FEDPLUG_TF_KERNELS_SCATTER_DECODE_OPS_H_

#include <cstdint>

#include "core/scatter_decode.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/scatter_decode_inputs.h"
#include "tf/kernels/status.h"
#include "tf/kernels/variables.h"

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

// Adds the payloads to `accumulator`, in the place of `sum`, which may be its.
template <typename T, typename Device>
tensorflow::Status AddPayloads(tensorflow::OpKernelContext* context,
                               const tensorflow::Tensor& accumulator,
                               tensorflow::Tensor* sum) {
  if (!sum->SharesBufferWith(accumulator)) {
    TF_RETURN_IF_ERROR(Device::Copy(context, accumulator, sum));
  }
  return Device::Add(context, PayloadInputs<T>::Of(context), sum);
}

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
    OP_REQUIRES_OK(context, AddPayloads<T, Device>(context, accumulator, sum));
  }
};

template <typename T, typename Device>
class ResourceScatterDecodeAddOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    LockedVariables accumulator;
    OP_REQUIRES_OK(
        context,
        accumulator.Lock(context, 0, 1, tensorflow::DataTypeToEnum<T>::value));
    tensorflow::Tensor* sum;
    OP_REQUIRES_OK(context, accumulator.ForwardOrAllocate(context, 0, &sum));
    OP_REQUIRES_OK(context,
                   AddPayloads<T, Device>(context, accumulator.Value(0), sum));
    accumulator.Commit();
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

#endif  // FEDPLUG_TF_KERNELS_SCATTER_DECODE_OPS_H_
