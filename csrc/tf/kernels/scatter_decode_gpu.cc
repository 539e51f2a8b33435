// Fedplug>ScatterDecodeAdd on a GPU: check, allocate, queue on the op's stream.
#include <cstdint>

#include "cuda/copy.h"
#include "cuda/scatter_decode.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/scatter_decode_inputs.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class ScatterDecodeAddGpuOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckPayloadInputs(context));
    const Tensor& accumulator = context->input(0);
    CUstream_st* const stream = StreamOf(context);

    // As on the CPU: a refused payload leaves the accumulator untouched, so
    // that its own buffer can be handed over at once.
    Tensor* sum;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output(
                                {0}, 0, accumulator.shape(), &sum));
    if (!sum->SharesBufferWith(accumulator)) {
      OP_REQUIRES_OK(context,
                     ToTensorFlow(cuda::QueueCopy(
                         MutableElements<T>(sum), Elements<T>(accumulator),
                         accumulator.TotalBytes(), stream)));
    }
    Scratch workspace, report;
    OP_REQUIRES_OK(
        context,
        workspace.Allocate(context, cuda::ScatterDecodeAddWorkspaceBytes()));
    OP_REQUIRES_OK(context,
                   report.Allocate(context, sizeof(cuda::ScatterReport)));
    OP_REQUIRES_OK(context,
                   ToTensorFlow(Run(*context, sum, &workspace,
                                    report.As<cuda::ScatterReport>(), stream)));
  }

 private:
  static Status Run(const OpKernelContext& context, Tensor* sum,
                    Scratch* workspace, cuda::ScatterReport* report,
                    CUstream_st* stream) {
    const Tensor& values = context.input(1);
    const Tensor& indices = context.input(2);
    const Tensor& row_splits = context.input(3);
    const Tensor& weights = context.input(4);
    if (Status status = cuda::ScatterDecodeAdd(
            MutableElements<T>(sum), sum->NumElements(), Elements<T>(values),
            indices.flat<std::int32_t>().data(), values.NumElements(),
            row_splits.flat<std::int64_t>().data(), weights.NumElements(),
            Elements<T>(weights), workspace->As<void>(), workspace->bytes(),
            report, stream);
        !status.ok()) {
      return status;
    }
    // The op may have to fail, so it waits for what the GPU has to say.
    cuda::ScatterReport found;
    if (Status status = cuda::Fetch(&found, report, sizeof(found), stream);
        !status.ok()) {
      return status;
    }
    return cuda::ToStatus(found);
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecodeAdd")    \
                              .Device(tensorflow::DEVICE_GPU) \
                              .TypeConstraint<T>("T"),        \
                          ScatterDecodeAddGpuOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
