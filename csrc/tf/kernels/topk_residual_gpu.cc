// Fedplug>TopKResidual on a GPU: check, allocate, queue on the op's stream.
#include <algorithm>
#include <cstdint>

#include "cuda/copy.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
class TopKResidualGpuOp : public OpKernel {
 public:
  explicit TopKResidualGpuOp(OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, GetNonFinitePolicy(context, &policy_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckTopKResidualInputs(context));
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    const std::int64_t k = context->input(2).scalar<std::int64_t>()();
    const std::int64_t n = delta.NumElements();
    OP_REQUIRES(
        context, n <= INT32_MAX,
        tensorflow::errors::InvalidArgument("n = ", n, " is not in [0, 2^31)"));

    const TensorShape selected({std::min(k, n)});
    Tensor *values, *indices, *new_residual, *non_finite;
    OP_REQUIRES_OK(context, context->allocate_output(0, selected, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, selected, &indices));
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output(
                                {1}, 2, residual.shape(), &new_residual));
    OP_REQUIRES_OK(context, context->allocate_output(3, {}, &non_finite));

    const cuda::TopKTensor<CoreType<T>> tensor = {
        Elements<T>(delta),
        Elements<T>(residual),
        MutableElements<T>(new_residual),
        n,
        k,
        MutableElements<T>(values),
        indices->flat<std::int32_t>().data()};
    Scratch workspace, report;
    OP_REQUIRES_OK(context,
                   workspace.Allocate(
                       context, cuda::TopKResidualWorkspaceBytes(&tensor, 1)));
    OP_REQUIRES_OK(context, report.Allocate(context, sizeof(cuda::TopKReport)));
    OP_REQUIRES_OK(context,
                   ToTensorFlow(Run(StreamOf(context), tensor, &workspace,
                                    report.As<cuda::TopKReport>(),
                                    non_finite->flat<std::int64_t>().data())));
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

  NonFinitePolicy policy_;
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
