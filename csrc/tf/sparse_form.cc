// Fedplug>SparseBody and Fedplug>SplitSparseBody on the CPU.
// docs/wire-format.md describes the layout of a body.
#include "core/sparse_form.h"

#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("Fedplug>SparseBody")
    .Input("count: int64")
    .Input("index_code: uint8")
    .Input("values: uint8")
    .Output("body: uint8")
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(CheckRanks(c, {0, 1, 1}));
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return tensorflow::OkStatus();
    });

REGISTER_OP("Fedplug>SplitSparseBody")
    .Input("body: uint8")
    .Input("size: int64")
    .Output("count: int32")
    .Output("index_code: uint8")
    .Output("values: uint8")
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(CheckRanks(c, {1, 0}));
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(2, c->Vector(InferenceContext::kUnknownDim));
      return tensorflow::OkStatus();
    });

class SparseBodyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& code = context->input(1);
    const Tensor& values = context->input(2);
    std::int64_t count;
    OP_REQUIRES_OK(context, ReadScalar(context->input(0), "count", &count));
    OP_REQUIRES_OK(context, RequireVector(code, "index_code"));
    OP_REQUIRES_OK(context, RequireVector(values, "values"));
    const std::int64_t code_bytes = code.NumElements();
    const std::int64_t value_bytes = values.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckSparseBody(count, code_bytes)));
    Tensor* body;
    OP_REQUIRES_OK(
        context, AllocateOutput(
                     context, 0,
                     {SparseBodyBytes(count, code_bytes, value_bytes)}, &body));
    WriteSparseBody(count, Elements<std::uint8_t>(code), code_bytes,
                    Elements<std::uint8_t>(values), value_bytes,
                    MutableElements<std::uint8_t>(body));
  }
};

class SplitSparseBodyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& body = context->input(0);
    std::int64_t size;
    OP_REQUIRES_OK(context, RequireVector(body, "body"));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "size", &size));
    const std::uint8_t* const data = Elements<std::uint8_t>(body);
    const std::int64_t bytes = body.NumElements();
    SparseBodyParts parts;
    OP_REQUIRES_OK(context,
                   ToTensorFlow(ReadSparseBody(data, bytes, size, &parts)));
    Tensor* count;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &count));
    count->scalar<std::int32_t>()() = static_cast<std::int32_t>(parts.count);
    OP_REQUIRES_OK(context, OutputCopy(context, 1, data + parts.code_begin,
                                       data + parts.values_begin));
    OP_REQUIRES_OK(context, OutputCopy(context, 2, data + parts.values_begin,
                                       data + bytes));
  }

 private:
  // A copy, because a part of a buffer is not aligned for TensorFlow's kernels.
  static tensorflow::Status OutputCopy(OpKernelContext* context, int index,
                                       const std::uint8_t* begin,
                                       const std::uint8_t* end) {
    Tensor* copy;
    TF_RETURN_IF_ERROR(AllocateOutput(context, index, {end - begin}, &copy));
    std::copy(begin, end, MutableElements<std::uint8_t>(copy));
    return tensorflow::OkStatus();
  }
};

FEDPLUG_REGISTER_CPU("Fedplug>SparseBody", SparseBodyOp);
FEDPLUG_REGISTER_CPU("Fedplug>SplitSparseBody", SplitSparseBodyOp);

}  // namespace
}  // namespace fedplug
