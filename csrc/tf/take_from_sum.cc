// Fedplug>TakeFromSum on the CPU.
#include "core/take_from_sum.h"

#include <cstdint>

#include "tf/op.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

tensorflow::Status TakeFromSumShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  ShapeHandle indices;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &indices));
  c->set_output(0, indices);
  c->set_output(1, update);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>TakeFromSum")
    .Input("delta: T")
    .Input("residual: T")
    .Input("indices: int32")
    .Output("values: T")
    .Output("new_residual: T")
    .Attr("T: {float, double}")
    .SetShapeFn(TakeFromSumShape);

template <typename T>
tensorflow::Status ComputeTakeFromSum(OpKernelContext* context) {
  const Tensor& delta = context->input(0);
  const Tensor& residual = context->input(1);
  const Tensor& indices = context->input(2);
  TF_RETURN_IF_ERROR(RequireSameShape(delta, residual, "delta"));
  TF_RETURN_IF_ERROR(RequireVector(indices, "indices"));
  Tensor *values, *new_residual;
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, indices.shape(), &values));
  // Not the residual's own buffer: writing there would require another walk
  // that checks every sum first.
  TF_RETURN_IF_ERROR(
      AllocateOutput(context, 1, residual.shape(), &new_residual));
  IntraOpPool pool(context);
  std::int64_t non_finite;
  return ToTensorFlow(
      TakeFromSum(Elements<T>(delta), Elements<T>(residual),
                  MutableElements<T>(new_residual), delta.NumElements(),
                  Elements<std::int32_t>(indices), indices.NumElements(), pool,
                  MutableElements<T>(values), &non_finite));
}

FEDPLUG_REGISTER_WIDE("Fedplug>TakeFromSum", ComputeTakeFromSum);

}  // namespace
}  // namespace fedplug
