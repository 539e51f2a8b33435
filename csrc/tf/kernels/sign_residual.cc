// Fedplug>SignResidual on the CPU: check, allocate, call the core.
#include "core/sign_residual.h"

#include <cstdint>

#include "core/value_code.h"
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
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class SignResidualOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    OP_REQUIRES_OK(context, RequireSameShape(delta, residual));
    const std::int64_t n = delta.NumElements();
    const ValueCode form{ValueForm::kSign};
    OP_REQUIRES_OK(context, ToTensorFlow(CheckValueCode(form, n)));

    Tensor *code, *new_residual;
    const std::int64_t bytes = ValueCodeBytes(form, n, sizeof(T));
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {bytes}, &code));
    OP_REQUIRES_OK(context,
                   ForwardInputOrAllocateOutput(context, 1, 1, residual.shape(),
                                                &new_residual));
    IntraOpPool pool(context);
    std::int64_t non_finite;
    OP_REQUIRES_OK(context,
                   ToTensorFlow(SignResidual(
                       Elements<T>(delta), Elements<T>(residual),
                       MutableElements<T>(new_residual), n, pool,
                       code->flat<std::uint8_t>().data(), &non_finite)));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>SignResidual")        \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          SignResidualOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
