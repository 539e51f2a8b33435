// Fedplug>TopKMomentum on the CPU: check, allocate, call the core.
#include <algorithm>
#include <cstdint>

#include "core/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"
#include "tf/kernels/topk_residual_inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

tensorflow::Status CheckShapes(OpKernelContext* context) {
  const Tensor& gradient = context->input(0);
  for (const int input : {2, 3}) {
    const Tensor& other = context->input(input);
    if (other.shape() == gradient.shape()) continue;
    return tensorflow::errors::InvalidArgument(
        "gradient has shape ", gradient.shape().DebugString(), " but ",
        input == 2 ? "velocity" : "residual", " has ",
        other.shape().DebugString(), "; the three must be equal");
  }
  TF_RETURN_IF_ERROR(RequireScalar(context->input(1), "momentum"));
  return CheckTopKElements(gradient.NumElements());
}

template <typename T>
class TopKMomentumOp : public TopKOp {
 public:
  using TopKOp::TopKOp;

  void Compute(OpKernelContext* context) override {
    std::int64_t k;
    OP_REQUIRES_OK(context, CheckShapes(context));
    OP_REQUIRES_OK(context, ReadTopKCount(context->input(4), &k));
    const Tensor& gradient = context->input(0);
    const Tensor& velocity = context->input(2);
    const Tensor& residual = context->input(3);
    const std::int64_t n = gradient.NumElements();

    const tensorflow::TensorShape selected({std::min(k, n)});
    Tensor *values, *indices, *new_velocity, *new_residual, *non_finite;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, selected, &values));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, selected, &indices));
    OP_REQUIRES_OK(context,
                   ForwardInputOrAllocateOutput(context, 2, 2, velocity.shape(),
                                                &new_velocity));
    OP_REQUIRES_OK(context,
                   ForwardInputOrAllocateOutput(context, 3, 3, residual.shape(),
                                                &new_residual));
    OP_REQUIRES_OK(context, context->allocate_output(4, {}, &non_finite));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(
        context, ToTensorFlow(TopKMomentum(
                     gradient.flat<T>().data(), context->input(1).scalar<T>()(),
                     velocity.flat<T>().data(), new_velocity->flat<T>().data(),
                     residual.flat<T>().data(), new_residual->flat<T>().data(),
                     n, k, policy_, pool, values->flat<T>().data(),
                     indices->flat<std::int32_t>().data(),
                     non_finite->flat<std::int64_t>().data())));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>TopKMomentum")        \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          TopKMomentumOp<T>)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
