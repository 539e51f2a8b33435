// Fedplug>EncodeRotated and Fedplug>DecodeRotated on the CPU: check, allocate,
// call the core.
#include "core/rotated_code.h"

#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

// The configuration in inputs `key`, key + 1 and key + 2.
tensorflow::Status ReadRotatedCode(OpKernelContext* context, int key,
                                   RotatedCode* code) {
  const Tensor& seeds = context->input(key);
  const Tensor& levels = context->input(key + 1);
  TF_RETURN_IF_ERROR(RequireVector(seeds, "key"));
  TF_RETURN_IF_ERROR(RequireVector(levels, "levels"));
  TF_RETURN_IF_ERROR(
      ReadScalar(context->input(key + 2), "block_size", &code->block_size));
  if (seeds.NumElements() != 2) {
    return InvalidArgument("key has ", seeds.NumElements(),
                           " elements; it must have 2");
  }
  code->first_seed = seeds.vec<tensorflow::int64>()(0);
  code->second_seed = seeds.vec<tensorflow::int64>()(1);
  const double* const positive = levels.flat<double>().data();
  code->levels.assign(positive, positive + levels.NumElements());
  return tensorflow::OkStatus();
}

template <typename T>
class EncodeRotatedOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& values = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(values, "values"));
    RotatedCode code;
    OP_REQUIRES_OK(context, ReadRotatedCode(context, 1, &code));
    const std::int64_t count = values.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckRotatedCode(code, count)));

    Tensor* data;
    const std::int64_t bytes = RotatedCodeBytes(code, count, sizeof(T));
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {bytes}, &data));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(context, ToTensorFlow(EncodeRotated(
                                Elements<T>(values), count, code, pool,
                                data->flat<std::uint8_t>().data())));
  }
};

template <typename T>
class DecodeRotatedOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& data = context->input(0);
    OP_REQUIRES_OK(context, RequireVector(data, "code"));
    std::int64_t count;
    OP_REQUIRES_OK(context, ReadScalar(context->input(1), "count", &count));
    RotatedCode code;
    OP_REQUIRES_OK(context, ReadRotatedCode(context, 2, &code));
    const std::int64_t bytes = data.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckRotatedBytes(bytes, count, code,
                                                           sizeof(T))));

    Tensor* values;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &values));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeRotated(
                                data.flat<std::uint8_t>().data(), bytes, count,
                                code, pool, MutableElements<T>(values))));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>EncodeRotated")       \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          EncodeRotatedOp<T>);                \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>DecodeRotated")       \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          DecodeRotatedOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
