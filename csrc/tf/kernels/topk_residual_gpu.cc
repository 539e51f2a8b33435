// Fedplug>TopKResidual on a GPU: check, allocate, queue on the op's stream.
#include <cstdint>

#include "cuda/copy.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_arguments.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;

template <typename T>
class TopKResidualGpuOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    TopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    const auto& update = arguments.update;
    const cuda::TopKTensor<CoreType<T>> tensor = {
        update.delta,
        update.residual_in,
        update.residual_out,
        update.n,
        arguments.k,
        MutableElements<T>(arguments.values),
        arguments.indices->template flat<std::int32_t>().data()};
    Scratch workspace, report;
    OP_REQUIRES_OK(context,
                   workspace.Allocate(
                       context, cuda::TopKResidualWorkspaceBytes(&tensor, 1)));
    OP_REQUIRES_OK(context, report.Allocate(context, sizeof(cuda::TopKReport)));
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(
            Run(StreamOf(context), tensor, &workspace,
                report.As<cuda::TopKReport>(),
                arguments.non_finite->template flat<std::int64_t>().data())));
  }

 private:
  // Waits for the GPU only where the op may have to fail.
  Status Run(CUstream_st* stream, const cuda::TopKTensor<CoreType<T>>& tensor,
             Scratch* workspace, cuda::TopKReport* report,
             std::int64_t* non_finite) const {
    if (Status status =
            cuda::TopKResidual(&tensor, 1, policy_, workspace->As<void>(),
                               workspace->bytes(), report, stream);
        !status.ok()) {
      return status;
    }
    if (Status status = cuda::QueueCopy(non_finite, &report->non_finite,
                                        sizeof(*non_finite), stream);
        !status.ok() || policy_ == NonFinitePolicy::kDrop) {
      return status;
    }
    cuda::TopKReport found;
    if (Status status = cuda::Fetch(&found, report, sizeof(found), stream);
        !status.ok()) {
      return status;
    }
    return cuda::ToStatus(found, tensor.n, policy_);
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>TopKResidual")        \
                              .Device(tensorflow::DEVICE_GPU) \
                              .HostMemory("k")                \
                              .TypeConstraint<T>("T"),        \
                          TopKResidualGpuOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
