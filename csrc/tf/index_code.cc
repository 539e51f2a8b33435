// Fedplug>EncodeIndices, Fedplug>DecodeIndices and Fedplug>DrawIndices on the CPU. docs/wire-format.md
// describes the layout of a code, and core/random_numbers.h which indices are drawn.
#include "core/index_code.h"

#include <cstdint>
#include <string>
#include <vector>

#include "core/random_numbers.h"
#include "tf/op.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

REGISTER_OP("Fedplug>EncodeIndices")
    .Input("indices: int32")
    .Input("size: int64")
    .Output("code: uint8")
    .Attr("form: {'rice', 'gaps'} = 'rice'")
    .SetShapeFn(VectorOf({1, 0}));

REGISTER_OP("Fedplug>DecodeIndices")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .Attr("form: {'rice', 'gaps'} = 'rice'")
    .SetShapeFn(VectorOf({1, 0, 0}, 1));

REGISTER_OP("Fedplug>DrawIndices")
    .Input("seed: int64")
    .Input("count: int64")
    .Input("size: int64")
    .Output("indices: int32")
    .SetShapeFn(VectorOf({0, 0, 0}, 1));

struct FormOfIndices {
  IndexForm form;

  tensorflow::Status Read(OpKernelConstruction* context) {
    std::string name;
    TF_RETURN_IF_ERROR(context->GetAttr("form", &name));
    if (FindIndexForm(name, &form)) return tensorflow::OkStatus();
    return InvalidArgument("no index code is called ", name);
  }
};

tensorflow::Status ComputeEncodeIndices(OpKernelContext* context,
                                        const FormOfIndices& attributes) {
  const Tensor& indices = context->input(0);
  std::int64_t size;
  TF_RETURN_IF_ERROR(RequireVector(indices, "indices"));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "size", &size));
  std::vector<std::uint8_t> bytes;
  TF_RETURN_IF_ERROR(ToTensorFlow(EncodeIndices(Elements<std::int32_t>(indices),
                                                indices.NumElements(), size,
                                                attributes.form, &bytes)));
  return OutputBytes(context, 0, bytes);
}

tensorflow::Status ComputeDecodeIndices(OpKernelContext* context,
                                        const FormOfIndices& attributes) {
  const Tensor& code = context->input(0);
  std::int64_t count, size;
  TF_RETURN_IF_ERROR(RequireVector(code, "code"));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "count", &count));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(2), "size", &size));
  const std::uint8_t* const bytes = Elements<std::uint8_t>(code);
  const std::int64_t length = code.NumElements();
  // Without this check a few untrusted bytes could allocate 8 GB.
  TF_RETURN_IF_ERROR(
      ToTensorFlow(CheckIndexCode(length, count, size, attributes.form)));
  Tensor* indices;
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {count}, &indices));
  return ToTensorFlow(DecodeIndices(bytes, length, count, size, attributes.form,
                                    MutableElements<std::int32_t>(indices)));
}

tensorflow::Status ComputeDrawIndices(OpKernelContext* context) {
  std::int64_t seed, count, size;
  TF_RETURN_IF_ERROR(ReadScalar(context->input(0), "seed", &seed));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "count", &count));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(2), "size", &size));
  TF_RETURN_IF_ERROR(ToTensorFlow(CheckDraw(count, size)));
  Tensor* indices;
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {count}, &indices));
  IntraOpPool pool(context);
  return ToTensorFlow(DrawIndices(static_cast<std::uint64_t>(seed), count, size,
                                  pool,
                                  MutableElements<std::int32_t>(indices)));
}

FEDPLUG_REGISTER_CPU("Fedplug>EncodeIndices", ComputeEncodeIndices);
FEDPLUG_REGISTER_CPU("Fedplug>DecodeIndices", ComputeDecodeIndices);
FEDPLUG_REGISTER_CPU("Fedplug>DrawIndices", ComputeDrawIndices);

}  // namespace
}  // namespace fedplug
