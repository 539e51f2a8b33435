// Fedplug>SparseBody and Fedplug>SplitSparseBody on the CPU: check, allocate,
// call the core.
#include "core/sparse_form.h"

#include <algorithm>
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

class SparseBodyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& code = context->input(1);
    const Tensor& values = context->input(2);
    std::int64_t count;
    OP_REQUIRES_OK(context, ReadScalar(context->input(0), "count", &count));
    OP_REQUIRES_OK(context, RequireVector(code, "index_code"));
    OP_REQUIRES_OK(context, RequireVector(values, "values"));
    const std::int64_t code_bytes = code.NumElements();
    const std::int64_t value_bytes = values.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckSparseBody(count, code_bytes)));
    Tensor* body;
    OP_REQUIRES_OK(
        context, AllocateOutput(
                     context, 0,
                     {SparseBodyBytes(count, code_bytes, value_bytes)}, &body));
    WriteSparseBody(count, code.flat<std::uint8_t>().data(), code_bytes,
                    values.flat<std::uint8_t>().data(), value_bytes,
                    body->flat<std::uint8_t>().data());
  }
};

class SplitSparseBodyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& body = context->input(0);
    std::int64_t size;
    OP_REQUIRES_OK(context, RequireVector(body, "body"));
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "size", &size));
    const std::uint8_t* const data = body.flat<std::uint8_t>().data();
    const std::int64_t bytes = body.NumElements();
    SparseBodyParts parts;
    OP_REQUIRES_OK(context,
                   ToTensorFlow(ReadSparseBody(data, bytes, size, &parts)));
    Tensor* count;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &count));
    count->scalar<std::int32_t>()() = static_cast<std::int32_t>(parts.count);
    OP_REQUIRES_OK(context, OutputCopy(context, 1, data + parts.code_begin,
                                       data + parts.values_begin));
    OP_REQUIRES_OK(context, OutputCopy(context, 2, data + parts.values_begin,
                                       data + bytes));
  }

 private:
  // A copy, because a part of a buffer is not aligned for TensorFlow's kernels.
  static tensorflow::Status OutputCopy(OpKernelContext* context, int index,
                                       const std::uint8_t* begin,
                                       const std::uint8_t* end) {
    Tensor* copy;
    TF_RETURN_IF_ERROR(AllocateOutput(context, index, {end - begin}, &copy));
    std::copy(begin, end, copy->flat<std::uint8_t>().data());
    return tensorflow::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>SparseBody").Device(tensorflow::DEVICE_CPU), SparseBodyOp);
REGISTER_KERNEL_BUILDER(
    Name("Fedplug>SplitSparseBody").Device(tensorflow::DEVICE_CPU),
    SplitSparseBodyOp);

}  // namespace
}  // namespace fedplug
