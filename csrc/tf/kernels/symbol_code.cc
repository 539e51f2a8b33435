// Fedplug>EncodeSymbols and Fedplug>DecodeSymbols on the CPU: check, allocate,
// call the core.
#include "core/symbol_code.h"

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

tensorflow::Status GetBits(OpKernelConstruction* context, int* bits) {
  TF_RETURN_IF_ERROR(context->GetAttr("bits", bits));
  return ToTensorFlow(CheckSymbols(0, *bits));
}

// The bytes are input 0, the count is input 1.
tensorflow::Status ReadCount(OpKernelContext* context, std::int64_t* count) {
  TF_RETURN_IF_ERROR(RequireVector(context->input(0), "the bytes"));
  return ReadScalar(context->input(1), "count", count);
}

class EncodeSymbolsOp : public OpKernel {
 public:
  explicit EncodeSymbolsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, GetBits(context, &bits_));
  }

  void Compute(OpKernelContext* context) override {
    std::int64_t count;
    OP_REQUIRES_OK(context, ReadCount(context, &count));
    const Tensor& packed = context->input(0);
    std::vector<std::uint8_t> bytes;
    OP_REQUIRES_OK(context, ToTensorFlow(EncodeSymbols(
                                packed.flat<std::uint8_t>().data(),
                                packed.NumElements(), count, bits_, &bytes)));
    OP_REQUIRES_OK(context, OutputBytes(context, 0, bytes));
  }

 private:
  int bits_;
};

class DecodeSymbolsOp : public OpKernel {
 public:
  explicit DecodeSymbolsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, GetBits(context, &bits_));
  }

  void Compute(OpKernelContext* context) override {
    std::int64_t count;
    OP_REQUIRES_OK(context, ReadCount(context, &count));
    const Tensor& code = context->input(0);
    const std::uint8_t* const bytes = code.flat<std::uint8_t>().data();
    const std::int64_t length = code.NumElements();
    OP_REQUIRES_OK(context,
                   ToTensorFlow(CheckSymbolCode(bytes, length, count, bits_)));
    Tensor* packed;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, 0, {PackedSymbolBytes(count, bits_)}, &packed));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeSymbols(
                                bytes, length, count, bits_,
                                packed->flat<std::uint8_t>().data())));
  }

 private:
  int bits_;
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>EncodeSymbols").Device(tensorflow::DEVICE_CPU),
    EncodeSymbolsOp);
REGISTER_KERNEL_BUILDER(
    Name("Fedplug>DecodeSymbols").Device(tensorflow::DEVICE_CPU),
    DecodeSymbolsOp);

}  // namespace
}  // namespace fedplug
