// Fedplug>GroupedTopKResidual on a GPU: check, allocate, queue on the op's
// stream.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/runtime.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/element_type.h"
#include "tf/gpu.h"
#include "tf/inputs.h"
#include "tf/topk_residual.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class GroupedTopKResidualGpuOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupedTopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    const Updates& updates = arguments.updates;
    const int tensors = static_cast<int>(updates.size());
    Scratch workspace, reports;
    OP_REQUIRES_OK(
        context,
        workspace.Allocate(context, cuda::GroupedTopKResidualWorkspaceBytes(
                                        updates.data(), tensors)));
    OP_REQUIRES_OK(context, reports.Allocate(context, ReportBytes(updates)));
    CUstream_st* const stream = StreamOf(context);
    OP_REQUIRES_OK(
        context, ToTensorFlow(cuda::GroupedTopKResidual(
                     updates.data(), tensors, arguments.k, workspace.As<void>(),
                     workspace.bytes(), MutableElements<T>(arguments.values),
                     arguments.indices->template flat<std::int32_t>().data(),
                     arguments.row_splits->template flat<std::int64_t>().data(),
                     reports.As<cuda::TopKReport>(), stream)));
    OP_REQUIRES_OK(context, RequireFinite(context, updates, &reports, stream));
  }

 private:
  using Updates = std::vector<TensorUpdate<CoreType<T>>>;

  static std::size_t ReportBytes(const Updates& updates) {
    return updates.size() * sizeof(cuda::TopKReport);
  }

  // Waits for the device, because the op may have to fail.
  static tensorflow::Status RequireFinite(OpKernelContext* context,
                                          const Updates& updates,
                                          Scratch* reports,
                                          CUstream_st* stream) {
    Scratch on_host;
    TF_RETURN_IF_ERROR(on_host.AllocatePinned(context, ReportBytes(updates)));
    TF_RETURN_IF_ERROR(
        ToTensorFlow(cuda::Fetch(on_host.As<void>(), reports->As<void>(),
                                 ReportBytes(updates), stream)));
    const auto* const first = on_host.As<cuda::TopKReport>();
    const std::vector<cuda::TopKReport> found(first, first + updates.size());
    std::vector<std::int64_t> sizes;
    for (const auto& update : updates) sizes.push_back(update.n);
    return ToTensorFlow(cuda::ToStatus(found, sizes));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>GroupedTopKResidual") \
                              .Device(tensorflow::DEVICE_GPU) \
                              .HostMemory("k")                \
                              .TypeConstraint<T>("T"),        \
                          GroupedTopKResidualGpuOp<T>)
FEDPLUG_REGISTER(float);
FEDPLUG_REGISTER(double);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
