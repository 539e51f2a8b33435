// Fedplug>GroupedTopKResidual on a GPU: check, allocate, queue on the op's
// stream.
#include <cstdint>
#include <vector>

#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/grouped_topk_residual.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_reports_gpu.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class GroupedTopKResidualGpuOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    GroupedTopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    const Updates& updates = arguments.updates;
    const int tensors = static_cast<int>(updates.size());
    Scratch workspace;
    TopKReports reports;
    OP_REQUIRES_OK(
        context,
        workspace.Allocate(context, cuda::GroupedTopKResidualWorkspaceBytes(
                                        updates.data(), tensors)));
    OP_REQUIRES_OK(context, reports.Allocate(context, updates.size(),
                                             /*with_row_splits=*/false));
    CUstream_st* const stream = StreamOf(context);
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(cuda::GroupedTopKResidual(
            updates.data(), tensors, arguments.k, policy_, workspace.As<void>(),
            workspace.bytes(), MutableElements<T>(arguments.values),
            arguments.indices->template flat<std::int32_t>().data(),
            arguments.row_splits->template flat<std::int64_t>().data(),
            reports.reports(), stream)));
    OP_REQUIRES_OK(
        context,
        reports.Fetch(
            updates, policy_, nullptr,
            arguments.non_finite->template scalar<std::int64_t>().data(),
            stream));
  }

 private:
  using Updates = std::vector<TensorUpdate<CoreType<T>>>;
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>GroupedTopKResidual") \
                              .Device(tensorflow::DEVICE_GPU) \
                              .HostMemory("k")                \
                              .HostMemory("nonfinite")        \
                              .TypeConstraint<T>("T"),        \
                          GroupedTopKResidualGpuOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
