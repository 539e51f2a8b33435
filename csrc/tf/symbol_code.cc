// Fedplug>EncodeSymbols and Fedplug>DecodeSymbols on the CPU.
// docs/wire-format.md describes the layout of a code.
#include "core/symbol_code.h"

#include <cstdint>

#include "tf/op.h"

namespace fedplug {
namespace {

REGISTER_OP("Fedplug>EncodeSymbols")
    .Input("packed: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("code: uint8")
    .SetShapeFn(VectorOf({1, 0, 0}));

REGISTER_OP("Fedplug>DecodeSymbols")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("packed: uint8")
    .SetShapeFn(VectorOf({1, 0, 0}));

// The inputs of both ops.
struct Symbols {
  const std::uint8_t* data;
  std::int64_t length;
  std::int64_t count;
  int bits;

  tensorflow::Status Read(OpKernelContext* context) {
    const Tensor& bytes = context->input(0);
    TF_RETURN_IF_ERROR(RequireVector(bytes, "the bytes"));
    data = Elements<std::uint8_t>(bytes);
    length = bytes.NumElements();
    TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "count", &count));
    return ReadBits(context->input(2), &bits);
  }
};

tensorflow::Status ComputeEncodeSymbols(OpKernelContext* context) {
  Symbols packed;
  TF_RETURN_IF_ERROR(packed.Read(context));
  tensorflow::Status allocated;
  const auto place = [&](std::int64_t bytes) -> std::uint8_t* {
    Tensor* code;
    allocated = AllocateOutput(context, 0, {bytes}, &code);
    return allocated.ok() ? MutableElements<std::uint8_t>(code) : nullptr;
  };
  TF_RETURN_IF_ERROR(ToTensorFlow(EncodeSymbols(
      packed.data, packed.length, packed.count, packed.bits, place)));
  return allocated;
}

tensorflow::Status ComputeDecodeSymbols(OpKernelContext* context) {
  Symbols code;
  TF_RETURN_IF_ERROR(code.Read(context));
  TF_RETURN_IF_ERROR(ToTensorFlow(
      CheckSymbolCode(code.data, code.length, code.count, code.bits)));
  Tensor* packed;
  const std::int64_t bytes = PackedSymbolBytes(code.count, code.bits);
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {bytes}, &packed));
  return ToTensorFlow(DecodeSymbols(code.data, code.length, code.count,
                                    code.bits,
                                    MutableElements<std::uint8_t>(packed)));
}

FEDPLUG_REGISTER_CPU("Fedplug>EncodeSymbols", ComputeEncodeSymbols);
FEDPLUG_REGISTER_CPU("Fedplug>DecodeSymbols", ComputeDecodeSymbols);

}  // namespace
}  // namespace fedplug
