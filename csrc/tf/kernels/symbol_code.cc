// Fedplug>EncodeSymbols and Fedplug>DecodeSymbols on the CPU: check, allocate,
// call the core.
#include "core/symbol_code.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

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
      return allocated.ok() ? code->flat<std::uint8_t>().data() : nullptr;
    };
    OP_REQUIRES_OK(context, ToTensorFlow(EncodeSymbols(
                                packed.flat<std::uint8_t>().data(),
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
    const std::uint8_t* const bytes = code.flat<std::uint8_t>().data();
    const std::int64_t length = code.NumElements();
    OP_REQUIRES_OK(context,
                   ToTensorFlow(CheckSymbolCode(bytes, length, count, bits)));
    Tensor* packed;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, 0, {PackedSymbolBytes(count, bits)}, &packed));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeSymbols(
                                bytes, length, count, bits,
                                packed->flat<std::uint8_t>().data())));
  }
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>EncodeSymbols").Device(tensorflow::DEVICE_CPU),
    EncodeSymbolsOp);
REGISTER_KERNEL_BUILDER(
    Name("Fedplug>DecodeSymbols").Device(tensorflow::DEVICE_CPU),
    DecodeSymbolsOp);

}  // namespace
}  // namespace fedplug
