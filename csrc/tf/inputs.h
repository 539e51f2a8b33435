// Checks of inputs, and the core's refusals as TensorFlow's errors.
#ifndef FEDPLUG_TF_INPUTS_H_
#define FEDPLUG_TF_INPUTS_H_

#include <cstdint>
#include <initializer_list>

#include "core/base/status.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {

// While a graph is being built: the ranks of the first inputs.
inline tensorflow::Status CheckRanks(
    tensorflow::shape_inference::InferenceContext* c,
    std::initializer_list<int> ranks) {
  int input = 0;
  for (const int rank : ranks) {
    tensorflow::shape_inference::ShapeHandle ignored;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(input++), rank, &ignored));
  }
  return tensorflow::OkStatus();
}

// Likewise: the first output is a vector, whose size is the scalar input.
inline tensorflow::Status SetVectorOutput(
    tensorflow::shape_inference::InferenceContext* c, int size_input) {
  tensorflow::shape_inference::DimensionHandle size;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(size_input, &size));
  c->set_output(0, c->Vector(size));
  return tensorflow::OkStatus();
}

inline tensorflow::Status RequireVector(const tensorflow::Tensor& tensor,
                                        const char* name) {
  if (tensorflow::TensorShapeUtils::IsVector(tensor.shape())) {
    return tensorflow::OkStatus();
  }
  return tensorflow::errors::InvalidArgument(
      name, " must be a vector, not of shape ", tensor.shape().DebugString());
}

inline tensorflow::Status RequireScalar(const tensorflow::Tensor& tensor,
                                        const char* name) {
  if (tensorflow::TensorShapeUtils::IsScalar(tensor.shape())) {
    return tensorflow::OkStatus();
  }
  return tensorflow::errors::InvalidArgument(
      name, " must be a scalar, not of shape ", tensor.shape().DebugString());
}

// REQUIRES: the tensor is an int64 in host memory
inline tensorflow::Status ReadScalar(const tensorflow::Tensor& tensor,
                                     const char* name, std::int64_t* value) {
  TF_RETURN_IF_ERROR(RequireScalar(tensor, name));
  *value = tensor.scalar<std::int64_t>()();
  return tensorflow::OkStatus();
}

// Bits of a symbol or a level. The core refuses those that it does not take, by
// the range it takes. This refuses only numbers that an int cannot hold.
inline tensorflow::Status ReadBits(const tensorflow::Tensor& tensor,
                                   int* bits) {
  std::int64_t value;
  TF_RETURN_IF_ERROR(ReadScalar(tensor, "bits", &value));
  *bits = static_cast<int>(value);
  if (*bits == value) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument("bits = ", value,
                                             " is not in [1, 8]");
}

inline tensorflow::Status RequireSameShape(const tensorflow::Tensor& delta,
                                           const tensorflow::Tensor& residual) {
  if (delta.shape() == residual.shape()) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(
      "delta has shape ", delta.shape().DebugString(), " but residual has ",
      residual.shape().DebugString(), "; the two must be equal");
}

// Every refusal of an input is InvalidArgument, as the assertions of the
// references in TensorFlow raise, so that a caller sees one error. Device
// failures are Internal errors.
inline tensorflow::Status ToTensorFlow(const Status& status) {
  if (status.ok()) return tensorflow::OkStatus();
  if (status.code() == StatusCode::kDevice) {
    return tensorflow::errors::Internal(status.message());
  }
  return tensorflow::errors::InvalidArgument(status.message());
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_INPUTS_H_
