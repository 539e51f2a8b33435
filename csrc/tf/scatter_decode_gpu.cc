// Fedplug>ScatterDecodeAdd and Fedplug>ScatterDecode on a GPU: queue on the op's stream.
#include "cuda/runtime.h"
#include "cuda/scatter_decode.h"
#include "tf/gpu.h"
#include "tf/scatter_decode.h"

namespace fedplug {
namespace {

template <typename T>
struct Gpu {
  static tensorflow::Status Copy(OpKernelContext* context, const Tensor& from,
                                 Tensor* to) {
    return ToTensorFlow(cuda::QueueCopy(MutableElements<T>(to),
                                        Elements<T>(from), from.TotalBytes(),
                                        StreamOf(context)));
  }

  static tensorflow::Status Add(OpKernelContext* context,
                                const PayloadInputs<T>& payloads, Tensor* sum) {
    return Call(cuda::ScatterDecodeAdd<CoreType<T>>, context, payloads, sum);
  }

  static tensorflow::Status Decode(OpKernelContext* context,
                                   const PayloadInputs<T>& payloads,
                                   Tensor* sum) {
    return Call(cuda::ScatterDecode<CoreType<T>>, context, payloads, sum);
  }

 private:
  // Waits for the report of the GPU: the op may have to fail.
  template <typename Kernel>
  static tensorflow::Status Call(Kernel kernel, OpKernelContext* context,
                                 const PayloadInputs<T>& payloads,
                                 Tensor* sum) {
    Scratch workspace, report, found;
    TF_RETURN_IF_ERROR(
        workspace.Allocate(context, cuda::ScatterDecodeWorkspaceBytes()));
    TF_RETURN_IF_ERROR(report.Allocate(context, sizeof(cuda::ScatterReport)));
    TF_RETURN_IF_ERROR(
        found.AllocatePinned(context, sizeof(cuda::ScatterReport)));
    CUstream_st* const stream = StreamOf(context);
    TF_RETURN_IF_ERROR(ToTensorFlow(
        kernel(MutableElements<T>(sum), sum->NumElements(), payloads.values,
               payloads.indices, payloads.entries, payloads.row_splits,
               payloads.payloads, payloads.weights, workspace.As<void>(),
               workspace.bytes(), report.As<cuda::ScatterReport>(), stream)));
    TF_RETURN_IF_ERROR(ToTensorFlow(cuda::Fetch(
        found.As<void>(), report.As<void>(), report.bytes(), stream)));
    return ToTensorFlow(cuda::ToStatus(*found.As<cuda::ScatterReport>()));
  }
};

#define FEDPLUG_REGISTER(T)                                                \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecodeAdd")                 \
                              .Device(tensorflow::DEVICE_GPU)              \
                              .TypeConstraint<T>("T"),                     \
                          FunctionOp<ComputeScatterDecodeAdd<T, Gpu<T>>>); \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecode")                    \
                              .Device(tensorflow::DEVICE_GPU)              \
                              .HostMemory("size")                          \
                              .TypeConstraint<T>("T"),                     \
                          FunctionOp<ComputeScatterDecode<T, Gpu<T>>>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
