// Fedplug>AllFinite and Fedplug>FiniteFromBytes on the CPU.
#include <algorithm>
#include <cstdint>

#include "core/all_finite.h"
#include "tf/op.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

REGISTER_OP("Fedplug>AllFinite")
    .Input("xs: T")
    .Output("finite: bool")
    .Attr("T: list({half, bfloat16, float, double}) >= 1")
    .SetShapeFn(ScalarOf({}));

REGISTER_OP("Fedplug>FiniteFromBytes")
    .Input("data: uint8")
    .Input("count: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .SetShapeFn(VectorOf({1}, 1));

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

tensorflow::Status ComputeAllFinite(OpKernelContext* context) {
  Tensor* finite;
  TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &finite));
  IntraOpPool pool(context);
  bool all = true;
  for (int i = 0; all && i < context->num_inputs(); ++i) {
    all = IsFiniteTensor(context->input(i), pool);
  }
  finite->scalar<bool>()() = all;
  return tensorflow::OkStatus();
}

template <typename T>
tensorflow::Status ComputeFiniteFromBytes(OpKernelContext* context) {
  const Tensor& data = context->input(0);
  TF_RETURN_IF_ERROR(RequireVector(data, "data"));
  std::int64_t count;
  TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "count", &count));
  // No tensor has more elements, and the product below would overflow.
  count = std::clamp(count, std::int64_t{-1}, std::int64_t{1} << 56);
  constexpr std::int64_t kBytes{sizeof(T)};
  if (data.NumElements() != count * kBytes) {
    return InvalidArgument("the bytes of raw values have the wrong length, ",
                           data.NumElements(), "; there must be ",
                           count * kBytes);
  }
  // No copy: TensorFlow's own buffers are aligned for every type.
  Tensor values;
  TF_RETURN_IF_ERROR(
      values.BitcastFrom(data, tensorflow::DataTypeToEnum<T>::value, {count}));
  IntraOpPool pool(context);
  if (!AllFinite(Elements<T>(values), count, pool)) {
    return InvalidArgument("a raw value is NaN or infinite");
  }
  context->set_output(0, values);
  return tensorflow::OkStatus();
}

FEDPLUG_REGISTER_CPU("Fedplug>AllFinite", ComputeAllFinite);
FEDPLUG_REGISTER_FLOATING("Fedplug>FiniteFromBytes", ComputeFiniteFromBytes);

}  // namespace
}  // namespace fedplug
