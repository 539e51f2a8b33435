// Fedplug>EncodeIndices and Fedplug>DecodeIndices on the CPU.
// docs/wire-format.md describes the layout of a code.
#include "core/index_code.h"

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::InferenceContext;

tensorflow::Status EncodeIndicesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1, 0}));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

tensorflow::Status DecodeIndicesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1, 0, 0}));
  return SetVectorOutput(c, 1);
}

REGISTER_OP("Fedplug>EncodeIndices")
    .Input("indices: int32")
    .Input("size: int64")
    .Output("code: uint8")
    .Attr("form: {'rice', 'gaps'} = 'rice'")
    .SetShapeFn(EncodeIndicesShape);

REGISTER_OP("Fedplug>DecodeIndices")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .Attr("form: {'rice', 'gaps'} = 'rice'")
    .SetShapeFn(DecodeIndicesShape);

class IndexCodeOp : public OpKernel {
 public:
  explicit IndexCodeOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string name;
    OP_REQUIRES_OK(context, context->GetAttr("form", &name));
    OP_REQUIRES(context, FindIndexForm(name, &form_),
                InvalidArgument("no index code is called ", name));
  }

 protected:
  IndexForm form_;
};

class EncodeIndicesOp : public IndexCodeOp {
 public:
  using IndexCodeOp::IndexCodeOp;

  void Compute(OpKernelContext* context) override {
    const Tensor& indices = context->input(0);
    std::int64_t size;
    OP_REQUIRES_OK(context, RequireVector(indices, "indices"));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "size", &size));

    std::vector<std::uint8_t> bytes;
    OP_REQUIRES_OK(context, ToTensorFlow(EncodeIndices(
                                Elements<std::int32_t>(indices),
                                indices.NumElements(), size, form_, &bytes)));
    OP_REQUIRES_OK(context, OutputBytes(context, 0, bytes));
  }
};

class DecodeIndicesOp : public IndexCodeOp {
 public:
  using IndexCodeOp::IndexCodeOp;

  void Compute(OpKernelContext* context) override {
    const Tensor& code = context->input(0);
    std::int64_t count, size;
    OP_REQUIRES_OK(context, RequireVector(code, "code"));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "count", &count));
    OP_REQUIRES_OK(context, ReadScalar(context->input(2), "size", &size));
    const std::uint8_t* const bytes = Elements<std::uint8_t>(code);
    const std::int64_t length = code.NumElements();
    // Without this check a few untrusted bytes could allocate 8 GB.
    OP_REQUIRES_OK(context,
                   ToTensorFlow(CheckIndexCode(length, count, size, form_)));
    Tensor* indices;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &indices));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeIndices(
                                bytes, length, count, size, form_,
                                MutableElements<std::int32_t>(indices))));
  }
};

FEDPLUG_REGISTER_CPU("Fedplug>EncodeIndices", EncodeIndicesOp);
FEDPLUG_REGISTER_CPU("Fedplug>DecodeIndices", DecodeIndicesOp);

}  // namespace
}  // namespace fedplug
