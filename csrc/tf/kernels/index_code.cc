// Fedplug>EncodeIndices and Fedplug>DecodeIndices on the CPU: check, allocate,
// call the core.
#include "core/index_code.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;

tensorflow::Status RequireVector(const Tensor& tensor, const char* name) {
  if (TensorShapeUtils::IsVector(tensor.shape())) return tensorflow::OkStatus();
  return InvalidArgument(name, " must be a vector, not of shape ",
                         tensor.shape().DebugString());
}

tensorflow::Status ReadScalar(const Tensor& tensor, const char* name,
                              std::int64_t* value) {
  if (!TensorShapeUtils::IsScalar(tensor.shape())) {
    return InvalidArgument(name, " must be a scalar, not of shape ",
                           tensor.shape().DebugString());
  }
  *value = tensor.scalar<std::int64_t>()();
  return tensorflow::OkStatus();
}

class EncodeIndicesOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& indices = context->input(0);
    std::int64_t size;
    OP_REQUIRES_OK(context, RequireVector(indices, "indices"));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "size", &size));

    std::vector<std::uint8_t> bytes;
    OP_REQUIRES_OK(context, ToTensorFlow(EncodeIndices(
                                indices.flat<std::int32_t>().data(),
                                indices.NumElements(), size, &bytes)));
    Tensor* code;
    const auto length = static_cast<std::int64_t>(bytes.size());
    OP_REQUIRES_OK(context, context->allocate_output(0, {length}, &code));
    std::copy(bytes.begin(), bytes.end(), code->flat<std::uint8_t>().data());
  }
};

class DecodeIndicesOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& code = context->input(0);
    std::int64_t count, size;
    OP_REQUIRES_OK(context, RequireVector(code, "code"));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "count", &count));
    OP_REQUIRES_OK(context, ReadScalar(context->input(2), "size", &size));
    const std::int64_t bytes = code.NumElements();
    OP_REQUIRES(context,
                size >= 0 && size <= std::numeric_limits<std::int32_t>::max(),
                InvalidArgument("size must be in [0, 2^31), not ", size));
    OP_REQUIRES(
        context, count >= 0 && count <= size,
        InvalidArgument("count must be in [0, ", size, "], not ", count));
    // An index costs at least one bit. Without this check a few hostile bytes
    // could ask for 8 GB.
    OP_REQUIRES(context, count / 8 <= bytes,
                InvalidArgument("a code of ", bytes, " bytes cannot hold ",
                                count, " indices"));

    Tensor* indices;
    OP_REQUIRES_OK(context, context->allocate_output(0, {count}, &indices));
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeIndices(
                                code.flat<std::uint8_t>().data(), bytes, count,
                                size, indices->flat<std::int32_t>().data())));
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
