// Fedplug>AllFinite and Fedplug>FiniteFromBytes on the CPU: check, call the
// core.
#include <algorithm>
#include <cstdint>

#include "core/all_finite.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/parallel.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// REQUIRES: one of the types of FEDPLUG_FOR_EACH_ELEMENT_TYPE
bool IsFiniteTensor(const Tensor& x, Parallel& parallel) {
  switch (x.dtype()) {
#define FEDPLUG_CASE(T)                      \
  case tensorflow::DataTypeToEnum<T>::value: \
    return AllFinite(Elements<T>(x), x.NumElements(), parallel)
    FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_CASE);
#undef FEDPLUG_CASE
    default:
      return false;
  }
}

class AllFiniteOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* finite;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &finite));
    IntraOpPool pool(context);
    bool all = true;
    for (int i = 0; all && i < context->num_inputs(); ++i) {
      all = IsFiniteTensor(context->input(i), pool);
    }
    finite->scalar<bool>()() = all;
  }
};

template <typename T>
class FiniteFromBytesOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& data = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(data, "data"));
    std::int64_t count;
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "count", &count));
    // No tensor has more elements, and the product below would overflow.
    count = std::clamp(count, std::int64_t{-1}, std::int64_t{1} << 56);
    constexpr std::int64_t kBytes{sizeof(T)};
    OP_REQUIRES(context, data.NumElements() == count * kBytes,
                tensorflow::errors::InvalidArgument(
                    "the bytes of raw values have the wrong length, ",
                    data.NumElements(), "; there must be ", count * kBytes));
    // No copy: TensorFlow's own buffers are aligned for every type.
    Tensor values;
    OP_REQUIRES_OK(
        context, values.BitcastFrom(data, tensorflow::DataTypeToEnum<T>::value,
                                    {count}));
    IntraOpPool pool(context);
    OP_REQUIRES(
        context, AllFinite(Elements<T>(values), count, pool),
        tensorflow::errors::InvalidArgument("a raw value is NaN or infinite"));
    context->set_output(0, values);
  }
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>AllFinite").Device(tensorflow::DEVICE_CPU), AllFiniteOp);

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>FiniteFromBytes")     \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          FiniteFromBytesOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
