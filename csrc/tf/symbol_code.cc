// Fedplug>EncodeSymbols and Fedplug>DecodeSymbols on the CPU.
// docs/wire-format.md describes the layout of a code.
#include "core/symbol_code.h"

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

tensorflow::Status BytesToBytesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1, 0, 0}));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>EncodeSymbols")
    .Input("packed: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("code: uint8")
    .SetShapeFn(BytesToBytesShape);

REGISTER_OP("Fedplug>DecodeSymbols")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("packed: uint8")
    .SetShapeFn(BytesToBytesShape);

// The bytes are input 0.
tensorflow::Status ReadSizes(OpKernelContext* context, std::int64_t* count,
                             int* bits) {
  TF_RETURN_IF_ERROR(RequireVector(context->input(0), "the bytes"));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "count", count));
  return ReadBits(context->input(2), bits);
}

class EncodeSymbolsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    std::int64_t count;
    int bits;
    OP_REQUIRES_OK(context, ReadSizes(context, &count, &bits));
    const Tensor& packed = context->input(0);
    tensorflow::Status allocated;
    const auto place = [&](std::int64_t bytes) -> std::uint8_t* {
      Tensor* code;
      allocated = AllocateOutput(context, 0, {bytes}, &code);
      return allocated.ok() ? MutableElements<std::uint8_t>(code) : nullptr;
    };
    OP_REQUIRES_OK(context, ToTensorFlow(EncodeSymbols(
                                Elements<std::uint8_t>(packed),
                                packed.NumElements(), count, bits, place)));
    OP_REQUIRES_OK(context, allocated);
  }
};

class DecodeSymbolsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    std::int64_t count;
    int bits;
    OP_REQUIRES_OK(context, ReadSizes(context, &count, &bits));
    const Tensor& code = context->input(0);
    const std::uint8_t* const bytes = Elements<std::uint8_t>(code);
    const std::int64_t length = code.NumElements();
    OP_REQUIRES_OK(context,
                   ToTensorFlow(CheckSymbolCode(bytes, length, count, bits)));
    Tensor* packed;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, 0, {PackedSymbolBytes(count, bits)}, &packed));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeSymbols(
                                bytes, length, count, bits,
                                MutableElements<std::uint8_t>(packed))));
  }
};

FEDPLUG_REGISTER_CPU("Fedplug>EncodeSymbols", EncodeSymbolsOp);
FEDPLUG_REGISTER_CPU("Fedplug>DecodeSymbols", DecodeSymbolsOp);

}  // namespace
}  // namespace fedplug
