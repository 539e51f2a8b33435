// Fedplug>EncodeValues and Fedplug>DecodeValues on the CPU.
// docs/wire-format.md describes the layout of a code.
#include "core/value_code.h"

#include <cstdint>
#include <string>

#include "tf/op.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

constexpr char kForms[] =
    "form: {'float16', 'bfloat16', 'qsgd', 'nearest', 'sign', 'codebook', "
    "'bounded', 'bfp'}";

REGISTER_OP("Fedplug>EncodeValues")
    .Input("values: T")
    .Input("seed: int64")
    .Input("bits: int64")
    .Output("code: uint8")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(kForms)
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(VectorOf({1, 0, 0}));

REGISTER_OP("Fedplug>DecodeValues")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Output("values: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr(kForms)
    .Attr("block_size: int = 1")
    .Attr("relative: float = 0.01")
    .SetShapeFn(VectorOf({1, 0, 0}, 1));

// The configuration of a code, from the attributes and then from the inputs.
struct CodeOfValues {
  ValueCode code;

  tensorflow::Status Read(OpKernelConstruction* context) {
    std::string form;
    TF_RETURN_IF_ERROR(context->GetAttr("form", &form));
    tensorflow::int64 block_size;
    TF_RETURN_IF_ERROR(context->GetAttr("block_size", &block_size));
    code.block_size = block_size;
    TF_RETURN_IF_ERROR(context->GetAttr("relative", &code.relative));
    if (FindValueForm(form, &code.form)) return tensorflow::OkStatus();
    return InvalidArgument("no value code is called ", form);
  }

  // The inputs are a vector, a scalar and the bits.
  tensorflow::Status ReadInputs(OpKernelContext* context, const char* vector,
                                const char* scalar, std::int64_t* value) {
    TF_RETURN_IF_ERROR(RequireVector(context->input(0), vector));
    TF_RETURN_IF_ERROR(ReadScalar(context->input(1), scalar, value));
    return ReadBits(context->input(2), &code.bits);
  }
};

template <typename T>
tensorflow::Status ComputeEncodeValues(OpKernelContext* context,
                                       const CodeOfValues& attributes) {
  CodeOfValues of = attributes;
  std::int64_t seed;
  TF_RETURN_IF_ERROR(of.ReadInputs(context, "values", "seed", &seed));
  const Tensor& values = context->input(0);
  const std::int64_t count = values.NumElements();
  TF_RETURN_IF_ERROR(ToTensorFlow(CheckValueCode(of.code, count)));
  Tensor* data;
  const std::int64_t bytes = ValueCodeBytes(of.code, count, sizeof(T));
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {bytes}, &data));
  IntraOpPool pool(context);
  std::int64_t non_finite;
  return ToTensorFlow(EncodeValues(
      Elements<T>(values), count, of.code, static_cast<std::uint64_t>(seed),
      pool, MutableElements<std::uint8_t>(data), &non_finite));
}

template <typename T>
tensorflow::Status ComputeDecodeValues(OpKernelContext* context,
                                       const CodeOfValues& attributes) {
  CodeOfValues of = attributes;
  std::int64_t count;
  TF_RETURN_IF_ERROR(of.ReadInputs(context, "code", "count", &count));
  const Tensor& data = context->input(0);
  const std::uint8_t* const bytes = Elements<std::uint8_t>(data);
  const std::int64_t length = data.NumElements();
  TF_RETURN_IF_ERROR(
      ToTensorFlow(CheckValueBytes(bytes, length, count, of.code, sizeof(T))));
  Tensor* values;
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {count}, &values));
  IntraOpPool pool(context);
  return ToTensorFlow(DecodeValues(bytes, length, count, of.code, pool,
                                   MutableElements<T>(values)));
}

FEDPLUG_REGISTER_FLOATING("Fedplug>EncodeValues", ComputeEncodeValues);
FEDPLUG_REGISTER_FLOATING("Fedplug>DecodeValues", ComputeDecodeValues);

}  // namespace
}  // namespace fedplug
