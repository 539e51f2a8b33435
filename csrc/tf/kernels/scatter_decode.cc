// Fedplug>ScatterDecodeAdd, Fedplug>ResourceScatterDecodeAdd and
// Fedplug>ScatterDecode on the CPU: check, allocate, call the core.
#include "core/scatter_decode.h"

#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/scatter_decode_inputs.h"
#include "tf/kernels/status.h"
#include "tf/kernels/variables.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// What is added to, where it is not in its place yet.
template <typename T>
void CopyUnlessShared(const Tensor& accumulator, Tensor* sum) {
  if (sum->SharesBufferWith(accumulator)) return;
  std::copy_n(accumulator.flat<T>().data(), accumulator.NumElements(),
              sum->flat<T>().data());
}

// Calls `decode`, one of the two of the core, with the payloads.
template <typename T, typename Decode>
Status DecodeInto(Tensor* sum, OpKernelContext* context, Decode decode) {
  const Tensor& values = context->input(1);
  const Tensor& indices = context->input(2);
  const Tensor& row_splits = context->input(3);
  const Tensor& weights = context->input(4);
  IntraOpPool pool(context);
  return decode(MutableElements<T>(sum), sum->NumElements(),
                Elements<T>(values), indices.flat<std::int32_t>().data(),
                values.NumElements(), row_splits.flat<std::int64_t>().data(),
                weights.NumElements(), Elements<T>(weights), pool);
}

template <typename T>
class ScatterDecodeAddOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    const Tensor& accumulator = context->input(0);
    // A payload may be refused only while the accumulator is untouched, and the
    // core promises just that; so the accumulator's own buffer can be handed
    // over at once.
    Tensor* sum;
    OP_REQUIRES_OK(context, ForwardInputOrAllocateOutput(
                                context, 0, 0, accumulator.shape(), &sum));
    CopyUnlessShared<T>(accumulator, sum);
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeInto<T>(
                                sum, context, ScatterDecodeAdd<CoreType<T>>)));
  }
};

template <typename T>
class ResourceScatterDecodeAddOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    LockedVariables accumulator;
    OP_REQUIRES_OK(
        context,
        accumulator.Lock(context, 0, 1, tensorflow::DataTypeToEnum<T>::value));
    Tensor* sum;
    OP_REQUIRES_OK(context, accumulator.ForwardOrAllocate(context, 0, &sum));
    CopyUnlessShared<T>(accumulator.Value(0), sum);
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeInto<T>(
                                sum, context, ScatterDecodeAdd<CoreType<T>>)));
    accumulator.Commit();
  }
};

template <typename T>
class ScatterDecodeOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    std::int64_t size;
    OP_REQUIRES_OK(context, ReadScalar(context->input(0), "size", &size));
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    OP_REQUIRES_OK(context, ToTensorFlow(CheckDenseSize(size)));
    Tensor* sum;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {size}, &sum));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeInto<T>(
                                sum, context, ScatterDecode<CoreType<T>>)));
  }
};

#define FEDPLUG_REGISTER(T)                                        \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecodeAdd")         \
                              .Device(tensorflow::DEVICE_CPU)      \
                              .TypeConstraint<T>("T"),             \
                          ScatterDecodeAddOp<T>);                  \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ResourceScatterDecodeAdd") \
                              .Device(tensorflow::DEVICE_CPU)      \
                              .TypeConstraint<T>("T"),             \
                          ResourceScatterDecodeAddOp<T>);          \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecode")            \
                              .Device(tensorflow::DEVICE_CPU)      \
                              .TypeConstraint<T>("T"),             \
                          ScatterDecodeOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
