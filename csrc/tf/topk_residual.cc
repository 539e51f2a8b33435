// Fedplug>GroupedTopKResidual and Fedplug>ChunkedTopKResidual: declarations, and kernels on the CPU.
#include "tf/topk_residual.h"

#include <algorithm>
#include <cstdint>

#include "core/chunked_topk_residual.h"
#include "core/topk_residual.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// min(k, n), if the input k and n are known. An unknown n is kUnknownDim.
tensorflow::Status NumSelected(InferenceContext* c, int k_input, std::int64_t n,
                               DimensionHandle* selected) {
  *selected = c->UnknownDim();
  const Tensor* k_tensor = c->input_tensor(k_input);
  if (k_tensor == nullptr) return tensorflow::OkStatus();
  const std::int64_t k = k_tensor->scalar<std::int64_t>()();
  if (k < 0) {
    return tensorflow::errors::InvalidArgument("k must be 0 or more, not ", k);
  }
  if (n >= 0) *selected = c->MakeDim(std::min(k, n));
  return tensorflow::OkStatus();
}

tensorflow::Status GroupedTopKResidualShape(InferenceContext* c) {
  const int tensors = (c->num_inputs() - 1) / 2;
  std::int64_t n = 0;
  for (int t = 0; t < tensors; ++t) {
    ShapeHandle update;
    TF_RETURN_IF_ERROR(c->Merge(c->input(t), c->input(tensors + t), &update));
    c->set_output(3 + t, update);
    const DimensionHandle size = c->NumElements(update);
    n = n < 0 || !c->ValueKnown(size) ? -1 : n + c->Value(size);
  }
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * tensors), 0, &scalar));
  DimensionHandle selected;
  TF_RETURN_IF_ERROR(NumSelected(c, 2 * tensors, n, &selected));
  c->set_output(0, c->Vector(selected));
  c->set_output(1, c->Vector(selected));
  c->set_output(2, c->Vector(tensors + 1));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>GroupedTopKResidual")
    .Input("deltas: N * T")
    .Input("residuals: N * T")
    .Input("k: int64")
    .Output("values: T")
    .Output("indices: int32")
    .Output("row_splits: int64")
    .Output("new_residuals: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {float, double}")
    .SetShapeFn(GroupedTopKResidualShape);

template <typename T>
class GroupedTopKResidualOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    GroupedTopKArguments<T> arguments;
    OP_REQUIRES_OK(context, arguments.Open(context));
    IntraOpPool pool(context);
    std::int64_t non_finite;
    const Status status = GroupedTopKResidual(
        arguments.updates, arguments.k, pool,
        MutableElements<T>(arguments.values),
        arguments.indices->template flat<std::int32_t>().data(),
        arguments.row_splits->template flat<std::int64_t>().data(),
        &non_finite);
    OP_REQUIRES_OK(context, ToTensorFlow(status));
  }
};

FEDPLUG_REGISTER_WIDE("Fedplug>GroupedTopKResidual", GroupedTopKResidualOp);

tensorflow::Status ChunkedTopKResidualShape(InferenceContext* c) {
  ShapeHandle update;
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &update));
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &scalar));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 0, &scalar));
  const ShapeHandle selected = c->Vector(c->UnknownDim());
  c->set_output(0, selected);
  c->set_output(1, selected);
  c->set_output(2, update);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>ChunkedTopKResidual")
    .Input("delta: T")
    .Input("residual: T")
    .Input("k: int64")
    .Input("decay: T")
    .Output("values: T")
    .Output("indices: int32")
    .Output("new_residual: T")
    .Attr("T: {float, double}")
    .Attr("chunk: int >= 1")
    .SetShapeFn(ChunkedTopKResidualShape);

template <typename T>
class ChunkedTopKResidualOp : public OpKernel {
 public:
  explicit ChunkedTopKResidualOp(OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("chunk", &chunk_));
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
            MutableElements<std::int32_t>(indices), &non_finite)));
  }

 private:
  tensorflow::int64 chunk_;
};

FEDPLUG_REGISTER_WIDE("Fedplug>ChunkedTopKResidual", ChunkedTopKResidualOp);

}  // namespace
}  // namespace fedplug
