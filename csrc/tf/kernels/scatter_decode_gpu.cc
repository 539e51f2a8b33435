// Fedplug>ScatterDecodeAdd, Fedplug>ResourceScatterDecodeAdd and
// Fedplug>ScatterDecode on a GPU: check, allocate, queue on the op's stream.
#include <cstdint>

#include "core/scatter_decode.h"
#include "cuda/copy.h"
#include "cuda/scatter_decode.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/inputs.h"
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
Status CopyUnlessShared(const Tensor& accumulator, Tensor* sum,
                        CUstream_st* stream) {
  if (sum->SharesBufferWith(accumulator)) return {};
  return cuda::QueueCopy(MutableElements<T>(sum), Elements<T>(accumulator),
                         accumulator.TotalBytes(), stream);
}

// Queues `decode`, one of the two of csrc/cuda, with the payloads, and waits
// for what the GPU has to say of them: the op may have to fail.
template <typename T, typename Decode>
tensorflow::Status DecodeInto(Tensor* sum, OpKernelContext* context,
                              Decode decode) {
  const Tensor& values = context->input(1);
  const Tensor& indices = context->input(2);
  const Tensor& row_splits = context->input(3);
  const Tensor& weights = context->input(4);
  Scratch workspace, report;
  TF_RETURN_IF_ERROR(
      workspace.Allocate(context, cuda::ScatterDecodeWorkspaceBytes()));
  TF_RETURN_IF_ERROR(report.Allocate(context, sizeof(cuda::ScatterReport)));
  CUstream_st* const stream = StreamOf(context);
  TF_RETURN_IF_ERROR(ToTensorFlow(
      decode(MutableElements<T>(sum), sum->NumElements(), Elements<T>(values),
             indices.flat<std::int32_t>().data(), values.NumElements(),
             row_splits.flat<std::int64_t>().data(), weights.NumElements(),
             Elements<T>(weights), workspace.As<void>(), workspace.bytes(),
             report.As<cuda::ScatterReport>(), stream)));
  cuda::ScatterReport found;
  TF_RETURN_IF_ERROR(ToTensorFlow(cuda::Fetch(
      &found, report.As<cuda::ScatterReport>(), sizeof(found), stream)));
  return ToTensorFlow(cuda::ToStatus(found));
}

template <typename T>
class ScatterDecodeAddGpuOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    const Tensor& accumulator = context->input(0);
    // As on the CPU: a refused payload leaves the accumulator untouched, so
    // that its own buffer can be handed over at once.
    Tensor* sum;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output(
                                {0}, 0, accumulator.shape(), &sum));
    OP_REQUIRES_OK(context, ToTensorFlow(CopyUnlessShared<T>(
                                accumulator, sum, StreamOf(context))));
    OP_REQUIRES_OK(context, DecodeInto<T>(sum, context,
                                          cuda::ScatterDecodeAdd<CoreType<T>>));
  }
};

template <typename T>
class ResourceScatterDecodeAddGpuOp : public OpKernel {
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
    OP_REQUIRES_OK(context, ToTensorFlow(CopyUnlessShared<T>(
                                accumulator.Value(0), sum, StreamOf(context))));
    OP_REQUIRES_OK(context, DecodeInto<T>(sum, context,
                                          cuda::ScatterDecodeAdd<CoreType<T>>));
    accumulator.Commit();
  }
};

template <typename T>
class ScatterDecodeGpuOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    std::int64_t size;
    OP_REQUIRES_OK(context, ReadScalar(context->input(0), "size", &size));
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    OP_REQUIRES_OK(context, ToTensorFlow(CheckDenseSize(size)));
    Tensor* sum;
    OP_REQUIRES_OK(context, context->allocate_output(0, {size}, &sum));
    OP_REQUIRES_OK(
        context, DecodeInto<T>(sum, context, cuda::ScatterDecode<CoreType<T>>));
  }
};

#define FEDPLUG_REGISTER(T)                                        \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecodeAdd")         \
                              .Device(tensorflow::DEVICE_GPU)      \
                              .TypeConstraint<T>("T"),             \
                          ScatterDecodeAddGpuOp<T>);               \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ResourceScatterDecodeAdd") \
                              .Device(tensorflow::DEVICE_GPU)      \
                              .HostMemory("accumulator")           \
                              .TypeConstraint<T>("T"),             \
                          ResourceScatterDecodeAddGpuOp<T>);       \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecode")            \
                              .Device(tensorflow::DEVICE_GPU)      \
                              .HostMemory("size")                  \
                              .TypeConstraint<T>("T"),             \
                          ScatterDecodeGpuOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
