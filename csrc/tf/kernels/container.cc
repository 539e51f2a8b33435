// Fedplug>Frame and Fedplug>Unframe on the CPU: check, allocate, call the core.
#include "core/container.h"

#include <algorithm>
#include <cstdint>
#include <string>

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

class HeaderOp : public OpKernel {
 public:
  explicit HeaderOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("header", &header_));
  }

 protected:
  const std::uint8_t* header() const {
    return reinterpret_cast<const std::uint8_t*>(header_.data());
  }
  std::int64_t header_bytes() const {
    return static_cast<std::int64_t>(header_.size());
  }

 private:
  std::string header_;
};

class FrameOp : public HeaderOp {
 public:
  using HeaderOp::HeaderOp;

  void Compute(OpKernelContext* context) override {
    const Tensor& body = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(body, "body"));
    Tensor* container;
    const std::int64_t bytes =
        ContainerBytes(header_bytes(), body.NumElements());
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {bytes}, &container));
    WriteContainer(header(), header_bytes(), body.flat<std::uint8_t>().data(),
                   body.NumElements(), container->flat<std::uint8_t>().data());
  }
};

class UnframeOp : public HeaderOp {
 public:
  using HeaderOp::HeaderOp;

  void Compute(OpKernelContext* context) override {
    const Tensor& container = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(container, "container"));
    const std::uint8_t* const data = container.flat<std::uint8_t>().data();
    BodyRange range;
    OP_REQUIRES_OK(context, ToTensorFlow(ReadContainerOf(
                                header(), header_bytes(), data,
                                container.NumElements(), &range)));
    // A copy, because a part of a buffer is not aligned for TensorFlow's
    // kernels.
    Tensor* body;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {range.bytes}, &body));
    std::copy_n(data + range.begin, range.bytes,
                body->flat<std::uint8_t>().data());
  }
};

REGISTER_KERNEL_BUILDER(Name("Fedplug>Frame").Device(tensorflow::DEVICE_CPU),
                        FrameOp);
REGISTER_KERNEL_BUILDER(Name("Fedplug>Unframe").Device(tensorflow::DEVICE_CPU),
                        UnframeOp);

}  // namespace
}  // namespace fedplug
