// Fedplug>AllFinite and Fedplug>FiniteFromBytes on the CPU.
#include <algorithm>
#include <cstdint>

#include "core/all_finite.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

tensorflow::Status AllFiniteShape(InferenceContext* c) {
  c->set_output(0, c->Scalar());
  return tensorflow::OkStatus();
}

tensorflow::Status FiniteFromBytesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1}));
  return SetVectorOutput(c, 1);
}

REGISTER_OP("Fedplug>AllFinite")
    .Input("xs: T")
    .Output("finite: bool")
    .Attr("T: list({half, bfloat16, float, double}) >= 1")
    .SetShapeFn(AllFiniteShape);

REGISTER_OP("Fedplug>FiniteFromBytes")
    .Input("data: uint8")
    .Input("count: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(FiniteFromBytesShape);

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

FEDPLUG_REGISTER_CPU("Fedplug>AllFinite", AllFiniteOp);

FEDPLUG_REGISTER_FLOATING("Fedplug>FiniteFromBytes", FiniteFromBytesOp);

}  // namespace
}  // namespace fedplug
