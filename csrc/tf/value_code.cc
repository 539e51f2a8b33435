// Fedplug>EncodeValues and Fedplug>DecodeValues on the CPU.
// docs/wire-format.md describes the layout of a code.
#include "core/value_code.h"

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/element_type.h"
#include "tf/inputs.h"
#include "tf/outputs.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::InferenceContext;

tensorflow::Status EncodeValuesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1, 0, 0}));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

tensorflow::Status DecodeValuesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {1, 0, 0}));
  return SetVectorOutput(c, 1);
}

REGISTER_OP("Fedplug>EncodeValues")
    .Input("values: T")
    .Input("seed: int64")
    .Input("bits: int64")
    .Output("code: uint8")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(
        "form: {'float16', 'bfloat16', 'qsgd', 'nearest', 'sign', "
        "'codebook', 'bounded', 'bfp'}")
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(EncodeValuesShape);

REGISTER_OP("Fedplug>DecodeValues")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(
        "form: {'float16', 'bfloat16', 'qsgd', 'nearest', 'sign', "
        "'codebook', 'bounded', 'bfp'}")
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(DecodeValuesShape);

// The configuration of a code, from the attributes and then from the inputs.
class ValueCodeOp : public OpKernel {
 public:
  explicit ValueCodeOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string form;
    OP_REQUIRES_OK(context, context->GetAttr("form", &form));
    tensorflow::int64 block_size;
    OP_REQUIRES_OK(context, context->GetAttr("block_size", &block_size));
    of_attributes_.block_size = block_size;
    OP_REQUIRES_OK(context,
                   context->GetAttr("relative", &of_attributes_.relative));
    OP_REQUIRES(context, FindValueForm(form, &of_attributes_.form),
                InvalidArgument("no value code is called ", form));
  }

 protected:
  // The inputs are a vector, a scalar and the bits.
  tensorflow::Status ReadInputs(OpKernelContext* context, const char* vector,
                                const char* scalar, std::int64_t* value,
                                ValueCode* code) const {
    TF_RETURN_IF_ERROR(RequireVector(context->input(0), vector));
    TF_RETURN_IF_ERROR(ReadScalar(context->input(1), scalar, value));
    *code = of_attributes_;
    return ReadBits(context->input(2), &code->bits);
  }

 private:
  ValueCode of_attributes_;
};

template <typename T>
class EncodeValuesOp : public ValueCodeOp {
 public:
  using ValueCodeOp::ValueCodeOp;

  void Compute(OpKernelContext* context) override {
    ValueCode code;
    std::int64_t seed;
    OP_REQUIRES_OK(context,
                   ReadInputs(context, "values", "seed", &seed, &code));
    const Tensor& values = context->input(0);
    const std::int64_t count = values.NumElements();
    OP_REQUIRES_OK(context, ToTensorFlow(CheckValueCode(code, count)));

    Tensor* data;
    const std::int64_t bytes = ValueCodeBytes(code, count, sizeof(T));
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {bytes}, &data));
    IntraOpPool pool(context);
    std::int64_t non_finite;
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(EncodeValues(
            Elements<T>(values), count, code, static_cast<std::uint64_t>(seed),
            pool, MutableElements<std::uint8_t>(data), &non_finite)));
  }
};

template <typename T>
class DecodeValuesOp : public ValueCodeOp {
 public:
  using ValueCodeOp::ValueCodeOp;

  void Compute(OpKernelContext* context) override {
    ValueCode code;
    std::int64_t count;
    OP_REQUIRES_OK(context,
                   ReadInputs(context, "code", "count", &count, &code));
    const Tensor& data = context->input(0);
    const std::int64_t bytes = data.NumElements();
    OP_REQUIRES_OK(
        context, ToTensorFlow(CheckValueBytes(Elements<std::uint8_t>(data),
                                              bytes, count, code, sizeof(T))));

    Tensor* values;
    OP_REQUIRES_OK(context, AllocateOutput(context, 0, {count}, &values));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(context, ToTensorFlow(DecodeValues(
                                Elements<std::uint8_t>(data), bytes, count,
                                code, pool, MutableElements<T>(values))));
  }
};

FEDPLUG_REGISTER_FLOATING("Fedplug>EncodeValues", EncodeValuesOp);
FEDPLUG_REGISTER_FLOATING("Fedplug>DecodeValues", DecodeValuesOp);

}  // namespace
}  // namespace fedplug
