// The parts that ops are made of: shape functions, checks of inputs, the core's refusals as TensorFlow's
// errors, and kernels that are functions.
#ifndef FEDPLUG_TF_OP_H_
#define FEDPLUG_TF_OP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"
#include "tf/element_type.h"
#include "tf/outputs.h"

namespace fedplug {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// While a graph is being built: the ranks of the first inputs.
inline tensorflow::Status CheckRanks(InferenceContext* c,
                                     const std::vector<int>& ranks) {
  int input = 0;
  for (const int rank : ranks) {
    ShapeHandle ignored;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(input++), rank, &ignored));
  }
  return tensorflow::OkStatus();
}

// Likewise: the first output is a vector, whose size is the scalar input.
inline tensorflow::Status SetVectorOutput(InferenceContext* c, int size_input) {
  DimensionHandle size;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(size_input, &size));
  c->set_output(0, c->Vector(size));
  return tensorflow::OkStatus();
}

// Shape functions of ops with one output, for inputs of these ranks: a scalar,
// a vector, and a vector whose size is the scalar input.
inline auto ScalarOf(std::vector<int> ranks) {
  return [ranks](InferenceContext* c) {
    c->set_output(0, c->Scalar());
    return CheckRanks(c, ranks);
  };
}
inline auto VectorOf(std::vector<int> ranks) {
  return [ranks](InferenceContext* c) {
    c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
    return CheckRanks(c, ranks);
  };
}
inline auto VectorOf(std::vector<int> ranks, int size_input) {
  return [ranks, size_input](InferenceContext* c) -> tensorflow::Status {
    TF_RETURN_IF_ERROR(CheckRanks(c, ranks));
    return SetVectorOutput(c, size_input);
  };
}

// Refuses tensors of another rank; `kind` names it.
inline tensorflow::Status RequireRank(const Tensor& tensor, const char* name,
                                      int rank, const char* kind) {
  if (tensor.dims() == rank) return tensorflow::OkStatus();
  return InvalidArgument(name, " must be a ", kind, ", not of shape ",
                         tensor.shape().DebugString());
}

inline tensorflow::Status RequireVector(const Tensor& tensor,
                                        const char* name) {
  return RequireRank(tensor, name, 1, "vector");
}

// REQUIRES: the tensor is an int64 in host memory
inline tensorflow::Status ReadScalar(const Tensor& tensor, const char* name,
                                     std::int64_t* value) {
  TF_RETURN_IF_ERROR(RequireRank(tensor, name, 0, "scalar"));
  *value = tensor.scalar<std::int64_t>()();
  return tensorflow::OkStatus();
}

// Bits of a symbol or a level. The core refuses those that it does not take, by
// the range it takes. This refuses only numbers that an int cannot hold.
inline tensorflow::Status ReadBits(const Tensor& tensor, int* bits) {
  std::int64_t value;
  TF_RETURN_IF_ERROR(ReadScalar(tensor, "bits", &value));
  *bits = static_cast<int>(value);
  if (*bits == value) return tensorflow::OkStatus();
  return InvalidArgument("bits = ", value, " is not in [1, 8]");
}

inline tensorflow::Status RequireSameShape(const Tensor& delta,
                                           const Tensor& residual,
                                           const std::string& delta_name) {
  if (delta.shape() == residual.shape()) return tensorflow::OkStatus();
  return InvalidArgument(delta_name, " has shape ", delta.shape().DebugString(),
                         " but its residual has ",
                         residual.shape().DebugString(),
                         "; the two must be equal");
}

// Every refusal of an input is InvalidArgument, as the assertions of the
// references in TensorFlow raise, so that a caller sees one error. Device
// failures are Internal errors.
inline tensorflow::Status ToTensorFlow(const Status& status) {
  if (status.ok()) return tensorflow::OkStatus();
  if (status.code() == StatusCode::kDevice) {
    return tensorflow::errors::Internal(status.message());
  }
  return InvalidArgument(status.message());
}

// A kernel that is a function of its context, and of attributes if it takes
// these: attributes.Read(construction) reads them once.
template <auto kCompute, typename Function = decltype(kCompute)>
class FunctionOp;

template <auto kCompute>
class FunctionOp<kCompute, tensorflow::Status (*)(OpKernelContext*)>
    : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, kCompute(context));
  }
};

template <auto kCompute, typename Attributes>
class FunctionOp<kCompute,
                 tensorflow::Status (*)(OpKernelContext*, const Attributes&)>
    : public OpKernel {
 public:
  explicit FunctionOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, kCompute(context, attributes_));
  }

 private:
  Attributes attributes_;
};

}  // namespace fedplug

// Registers a function as the CPU's kernel of an op, and function<T> for one
// type, for the types of selections, and for every element type.
#define FEDPLUG_REGISTER_CPU(NAME, COMPUTE)                          \
  REGISTER_KERNEL_BUILDER(Name(NAME).Device(tensorflow::DEVICE_CPU), \
                          FunctionOp<COMPUTE>)
#define FEDPLUG_REGISTER_TYPE(NAME, COMPUTE, T)                         \
  REGISTER_KERNEL_BUILDER(                                              \
      Name(NAME).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
      FunctionOp<COMPUTE<T>>)
#define FEDPLUG_REGISTER_WIDE(NAME, COMPUTE)   \
  FEDPLUG_REGISTER_TYPE(NAME, COMPUTE, float); \
  FEDPLUG_REGISTER_TYPE(NAME, COMPUTE, double)
#define FEDPLUG_REGISTER_FLOATING(NAME, COMPUTE)     \
  FEDPLUG_REGISTER_WIDE(NAME, COMPUTE);              \
  FEDPLUG_REGISTER_TYPE(NAME, COMPUTE, Eigen::half); \
  FEDPLUG_REGISTER_TYPE(NAME, COMPUTE, Eigen::bfloat16)

#endif  // FEDPLUG_TF_OP_H_
