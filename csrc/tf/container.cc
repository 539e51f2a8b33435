// Fedplug>Frame, Fedplug>Unframe and Fedplug>Crc32 on the CPU.
// docs/wire-format.md describes the layout of a container.
#include "core/container.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/crc32.h"
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
using tensorflow::shape_inference::InferenceContext;

tensorflow::Status VectorShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1}));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>Frame")
    .Input("body: uint8")
    .Output("container: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorShape);

REGISTER_OP("Fedplug>Unframe")
    .Input("container: uint8")
    .Output("body: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorShape);

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
    WriteContainer(header(), header_bytes(), Elements<std::uint8_t>(body),
                   body.NumElements(),
                   MutableElements<std::uint8_t>(container));
  }
};

class UnframeOp : public HeaderOp {
 public:
  using HeaderOp::HeaderOp;

  void Compute(OpKernelContext* context) override {
    const Tensor& container = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(container, "container"));
    const std::uint8_t* const data = Elements<std::uint8_t>(container);
    BodyRange range;
    OP_REQUIRES_OK(context, ToTensorFlow(ReadContainerOf(
                                header(), header_bytes(), data,
                                container.NumElements(), &range)));
    // A copy, because a part of a buffer is not aligned for TensorFlow's
    // kernels.
    Tensor* body;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {range.bytes}, &body));
    std::copy_n(data + range.begin, range.bytes,
                MutableElements<std::uint8_t>(body));
  }
};

FEDPLUG_REGISTER_CPU("Fedplug>Frame", FrameOp);
FEDPLUG_REGISTER_CPU("Fedplug>Unframe", UnframeOp);

tensorflow::Status Crc32Shape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1}));
  c->set_output(0, c->Scalar());
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>Crc32")
    .Input("data: uint8")
    .Output("checksum: uint32")
    .SetShapeFn(Crc32Shape);

class Crc32Op : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& data = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(data, "data"));
    Tensor* checksum;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &checksum));
    checksum->scalar<std::uint32_t>()() =
        Crc32(Elements<std::uint8_t>(data), data.NumElements());
  }
};

FEDPLUG_REGISTER_CPU("Fedplug>Crc32", Crc32Op);

}  // namespace
}  // namespace fedplug
