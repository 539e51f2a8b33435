// The ops of containers and of sparse bodies on the CPU: Fedplug>Frame, Fedplug>Unframe, Fedplug>Crc32,
// Fedplug>SparseBody and Fedplug>SplitSparseBody. docs/wire-format.md describes the layouts.
#include "core/container.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/crc32.h"
#include "core/sparse_form.h"
#include "tf/op.h"

namespace fedplug {
namespace {

REGISTER_OP("Fedplug>Frame")
    .Input("body: uint8")
    .Output("container: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorOf({1}));

REGISTER_OP("Fedplug>Unframe")
    .Input("container: uint8")
    .Output("body: uint8")
    .Attr("header: string")
    .SetShapeFn(VectorOf({1}));

REGISTER_OP("Fedplug>Crc32")
    .Input("data: uint8")
    .Output("checksum: uint32")
    .SetShapeFn(ScalarOf({1}));

REGISTER_OP("Fedplug>SparseBody")
    .Input("count: int64")
    .Input("index_code: uint8")
    .Input("values: uint8")
    .Output("body: uint8")
    .SetShapeFn(VectorOf({0, 1, 1}));

REGISTER_OP("Fedplug>SplitSparseBody")
    .Input("body: uint8")
    .Input("size: int64")
    .Output("count: int32")
    .Output("index_code: uint8")
    .Output("values: uint8")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(2, c->Vector(InferenceContext::kUnknownDim));
      return CheckRanks(c, {1, 0});
    });

// A copy, because a part of a buffer is not aligned for TensorFlow's kernels.
tensorflow::Status OutputCopy(OpKernelContext* context, int index,
                              const std::uint8_t* begin,
                              const std::uint8_t* end) {
  Tensor* copy;
  TF_RETURN_IF_ERROR(AllocateOutput(context, index, {end - begin}, &copy));
  std::copy(begin, end, MutableElements<std::uint8_t>(copy));
  return tensorflow::OkStatus();
}

struct Header {
  std::string header;

  tensorflow::Status Read(OpKernelConstruction* context) {
    return context->GetAttr("header", &header);
  }
  const std::uint8_t* data() const {
    return reinterpret_cast<const std::uint8_t*>(header.data());
  }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(header.size());
  }
};

tensorflow::Status ComputeFrame(OpKernelContext* context,
                                const Header& header) {
  const Tensor& body = context->input(0);
  TF_RETURN_IF_ERROR(RequireVector(body, "body"));
  Tensor* container;
  const std::int64_t bytes = ContainerBytes(header.bytes(), body.NumElements());
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {bytes}, &container));
  WriteContainer(header.data(), header.bytes(), Elements<std::uint8_t>(body),
                 body.NumElements(), MutableElements<std::uint8_t>(container));
  return tensorflow::OkStatus();
}

tensorflow::Status ComputeUnframe(OpKernelContext* context,
                                  const Header& header) {
  const Tensor& container = context->input(0);
  TF_RETURN_IF_ERROR(RequireVector(container, "container"));
  const std::uint8_t* const data = Elements<std::uint8_t>(container);
  BodyRange range;
  TF_RETURN_IF_ERROR(ToTensorFlow(ReadContainerOf(
      header.data(), header.bytes(), data, container.NumElements(), &range)));
  const std::uint8_t* const body = data + range.begin;
  return OutputCopy(context, 0, body, body + range.bytes);
}

tensorflow::Status ComputeCrc32(OpKernelContext* context) {
  const Tensor& data = context->input(0);
  TF_RETURN_IF_ERROR(RequireVector(data, "data"));
  Tensor* checksum;
  TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &checksum));
  checksum->scalar<std::uint32_t>()() =
      Crc32(Elements<std::uint8_t>(data), data.NumElements());
  return tensorflow::OkStatus();
}

tensorflow::Status ComputeSparseBody(OpKernelContext* context) {
  const Tensor& code = context->input(1);
  const Tensor& values = context->input(2);
  std::int64_t count;
  TF_RETURN_IF_ERROR(ReadScalar(context->input(0), "count", &count));
  TF_RETURN_IF_ERROR(RequireVector(code, "index_code"));
  TF_RETURN_IF_ERROR(RequireVector(values, "values"));
  const std::int64_t code_bytes = code.NumElements();
  const std::int64_t value_bytes = values.NumElements();
  TF_RETURN_IF_ERROR(ToTensorFlow(CheckSparseBody(count, code_bytes)));
  Tensor* body;
  const std::int64_t bytes = SparseBodyBytes(count, code_bytes, value_bytes);
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {bytes}, &body));
  WriteSparseBody(count, Elements<std::uint8_t>(code), code_bytes,
                  Elements<std::uint8_t>(values), value_bytes,
                  MutableElements<std::uint8_t>(body));
  return tensorflow::OkStatus();
}

tensorflow::Status ComputeSplitSparseBody(OpKernelContext* context) {
  const Tensor& body = context->input(0);
  std::int64_t size;
  TF_RETURN_IF_ERROR(RequireVector(body, "body"));
  TF_RETURN_IF_ERROR(ReadScalar(context->input(1), "size", &size));
  const std::uint8_t* const data = Elements<std::uint8_t>(body);
  const std::int64_t bytes = body.NumElements();
  SparseBodyParts parts;
  TF_RETURN_IF_ERROR(ToTensorFlow(ReadSparseBody(data, bytes, size, &parts)));
  Tensor* count;
  TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &count));
  count->scalar<std::int32_t>()() = static_cast<std::int32_t>(parts.count);
  TF_RETURN_IF_ERROR(OutputCopy(context, 1, data + parts.code_begin,
                                data + parts.values_begin));
  return OutputCopy(context, 2, data + parts.values_begin, data + bytes);
}

FEDPLUG_REGISTER_CPU("Fedplug>Frame", ComputeFrame);
FEDPLUG_REGISTER_CPU("Fedplug>Unframe", ComputeUnframe);
FEDPLUG_REGISTER_CPU("Fedplug>Crc32", ComputeCrc32);
FEDPLUG_REGISTER_CPU("Fedplug>SparseBody", ComputeSparseBody);
FEDPLUG_REGISTER_CPU("Fedplug>SplitSparseBody", ComputeSplitSparseBody);

}  // namespace
}  // namespace fedplug
