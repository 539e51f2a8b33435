// Fedplug>Crc32 on the CPU: check, allocate, call the core.
#include "core/crc32.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inputs.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class Crc32Op : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& data = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(data, "data"));
    Tensor* checksum;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &checksum));
    checksum->scalar<std::uint32_t>()() =
        Crc32(data.flat<std::uint8_t>().data(), data.NumElements());
  }
};

REGISTER_KERNEL_BUILDER(Name("Fedplug>Crc32").Device(tensorflow::DEVICE_CPU),
                        Crc32Op);

}  // namespace
}  // namespace fedplug
