// Fedplug>EncodeValues and Fedplug>DecodeValues on the CPU: check, allocate,
// call the core.
#include "core/value_code.h"

#include <cstdint>
#include <string>

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
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;

tensorflow::Status GetValueCode(OpKernelConstruction* context,
                                ValueCode* code) {
  std::string form;
  TF_RETURN_IF_ERROR(context->GetAttr("form", &form));
  TF_RETURN_IF_ERROR(context->GetAttr("bits", &code->bits));
  tensorflow::int64 block_size;
  TF_RETURN_IF_ERROR(context->GetAttr("block_size", &block_size));
  code->block_size = block_size;
  if (!FindValueForm(form, &code->form)) {
    return InvalidArgument("no value code is called ", form);
  }
  return ToTensorFlow(CheckValueCode(*code));
}

tensorflow::Status CheckInputs(OpKernelContext* context, const char* vector,
                               const char* scalar) {
  TF_RETURN_IF_ERROR(RequireVector(context->input(0), vector));
  return RequireScalar(context->input(1), scalar);
}

template <typename T>
class EncodeValuesOp : public OpKernel {
 public:
  explicit EncodeValuesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, GetValueCode(context, &code_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckInputs(context, "values", "seed"));
    const Tensor& values = context->input(0);
    const std::int64_t seed = context->input(1).scalar<std::int64_t>()();
    const std::int64_t count = values.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckValueCode(code_, count)));

    Tensor* data;
    const std::int64_t bytes = ValueCodeBytes(code_, count, sizeof(T));
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {bytes}, &data));
    IntraOpPool pool(context);
    std::int64_t non_finite;
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(EncodeValues(
            Elements<T>(values), count, code_, static_cast<std::uint64_t>(seed),
            pool, data->flat<std::uint8_t>().data(), &non_finite)));
  }

 private:
  ValueCode code_;
};

template <typename T>
class DecodeValuesOp : public OpKernel {
 public:
  explicit DecodeValuesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, GetValueCode(context, &code_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CheckInputs(context, "code", "count"));
    const Tensor& data = context->input(0);
    const std::int64_t count = context->input(1).scalar<std::int64_t>()();
    const std::int64_t bytes = data.NumElements();
    OP_REQUIRES_OK(
        context, ToTensorFlow(CheckValueBytes(data.flat<std::uint8_t>().data(),
                                              bytes, count, code_, sizeof(T))));

    Tensor* values;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &values));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeValues(
                                data.flat<std::uint8_t>().data(), bytes, count,
                                code_, pool, MutableElements<T>(values))));
  }

 private:
  ValueCode code_;
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>EncodeValues")        \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          EncodeValuesOp<T>);                 \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>DecodeValues")        \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          DecodeValuesOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
