// Fedplug>GroupedTopKResidual on a GPU: check, allocate, queue on the op's
// stream.
#include <cstdint>
#include <vector>

#include "cuda/copy.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/grouped_topk_residual.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class GroupedTopKResidualGpuOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

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
    OP_REQUIRES_OK(
        context,
        reports.Allocate(context, updates.size() * sizeof(cuda::TopKReport)));
    CUstream_st* const stream = StreamOf(context);
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(cuda::GroupedTopKResidual(
            updates.data(), tensors, arguments.k, policy_, workspace.As<void>(),
            workspace.bytes(), MutableElements<T>(arguments.values),
            arguments.indices->template flat<std::int32_t>().data(),
            arguments.row_splits->template flat<std::int64_t>().data(),
            reports.As<cuda::TopKReport>(), stream)));
    OP_REQUIRES_OK(context,
                   ToTensorFlow(Judge(updates, reports.As<cuda::TopKReport>(),
                                      arguments.non_finite, stream)));
  }

 private:
  using Updates = std::vector<TensorUpdate<CoreType<T>>>;

  // Waits for the reports of the GPU: the op may have to fail, and the host
  // adds up the dropped sums.
  Status Judge(const Updates& updates, const cuda::TopKReport* reports,
               Tensor* non_finite, CUstream_st* stream) const {
    std::vector<cuda::TopKReport> found(updates.size());
    if (Status status =
            cuda::Fetch(found.data(), reports,
                        found.size() * sizeof(cuda::TopKReport), stream);
        !status.ok()) {
      return status;
    }
    std::vector<std::int64_t> sizes;
    for (const auto& update : updates) sizes.push_back(update.n);
    std::int64_t& dropped = non_finite->scalar<std::int64_t>()() = 0;
    for (const cuda::TopKReport& report : found) dropped += report.non_finite;
    return cuda::ToStatus(found, sizes, policy_);
  }
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
