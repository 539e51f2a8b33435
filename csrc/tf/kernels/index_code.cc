// Fedplug>EncodeIndices and Fedplug>DecodeIndices on the CPU: check, allocate,
// call the core.
#include "core/index_code.h"

#include <cstdint>
#include <string>
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
using tensorflow::errors::InvalidArgument;

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
                                indices.flat<std::int32_t>().data(),
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
    const std::uint8_t* const bytes = code.flat<std::uint8_t>().data();
    const std::int64_t length = code.NumElements();
    // Without this check a few untrusted bytes could allocate 8 GB.
    OP_REQUIRES_OK(context,
                   ToTensorFlow(CheckIndexCode(length, count, size, form_)));
    Tensor* indices;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &indices));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeIndices(
                                bytes, length, count, size, form_,
                                indices->flat<std::int32_t>().data())));
  }
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>EncodeIndices").Device(tensorflow::DEVICE_CPU),
    EncodeIndicesOp);
REGISTER_KERNEL_BUILDER(
    Name("Fedplug>DecodeIndices").Device(tensorflow::DEVICE_CPU),
    DecodeIndicesOp);

}  // namespace
}  // namespace fedplug
