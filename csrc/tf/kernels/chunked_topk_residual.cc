// Fedplug>ChunkedTopKResidual on the CPU: check, allocate, call the core.
#include "core/chunked_topk_residual.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class ChunkedTopKResidualOp : public OpKernel {
 public:
  explicit ChunkedTopKResidualOp(OpKernelConstruction* context)
      : OpKernel(context) {
    tensorflow::int64 chunk;
    OP_REQUIRES_OK(context, context->GetAttr("chunk", &chunk));
    chunk_ = chunk;
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    OP_REQUIRES_OK(context, RequireSameShape(delta, residual));
    std::int64_t k;
    OP_REQUIRES_OK(context, ReadScalar(context->input(2), "k", &k));
    OP_REQUIRES_OK(context, RequireScalar(context->input(3), "decay"));
    const std::int64_t n = delta.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckChunks(n, k, chunk_)));
    const std::int64_t count = ChunkedEntries(n, k, chunk_);
    Tensor *values, *indices, *new_residual;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &values));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, {count}, &indices));
    // Not the residual's own buffer: writing there would require another walk
    // that checks every sum first.
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 2, residual.shape(), &new_residual));
    IntraOpPool pool(context);
    std::int64_t non_finite;
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(ChunkedTopKResidual(
            Elements<T>(delta), Elements<T>(residual),
            MutableElements<T>(new_residual), n, k, chunk_,
            *Elements<T>(context->input(3)), pool, MutableElements<T>(values),
            indices->flat<std::int32_t>().data(), &non_finite)));
  }

 private:
  std::int64_t chunk_;
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ChunkedTopKResidual") \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          ChunkedTopKResidualOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
