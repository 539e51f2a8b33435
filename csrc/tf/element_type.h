// TensorFlow's element types: how the core names them, and how to see a tensor's buffer through that name.
#ifndef FEDPLUG_TF_ELEMENT_TYPE_H_
#define FEDPLUG_TF_ELEMENT_TYPE_H_

#include "core/base/floats.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace fedplug {

template <typename T>
struct CoreTypeOf {
  using Type = T;
};
template <>
struct CoreTypeOf<Eigen::half> {
  using Type = Half;
};
template <>
struct CoreTypeOf<Eigen::bfloat16> {
  using Type = BFloat16;
};
template <typename T>
using CoreType = typename CoreTypeOf<T>::Type;

static_assert(sizeof(Half) == sizeof(Eigen::half) &&
                  alignof(Half) <= alignof(Eigen::half),
              "fedplug::Half must be laid out as Eigen::half");
static_assert(sizeof(BFloat16) == sizeof(Eigen::bfloat16) &&
                  alignof(BFloat16) <= alignof(Eigen::bfloat16),
              "fedplug::BFloat16 must be laid out as Eigen::bfloat16");

// REQUIRES: tensor.dtype() is T's
// SHAPE:    the result points to tensor.NumElements() elements
template <typename T>
const CoreType<T>* Elements(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<const CoreType<T>*>(tensor.flat<T>().data());
}
template <typename T>
CoreType<T>* MutableElements(tensorflow::Tensor* tensor) {
  return reinterpret_cast<CoreType<T>*>(tensor->flat<T>().data());
}

}  // namespace fedplug

// REGISTER(T); for every element type.
#define FEDPLUG_FOR_EACH_ELEMENT_TYPE(REGISTER) \
  REGISTER(float);                              \
  REGISTER(double);                             \
  REGISTER(Eigen::half);                        \
  REGISTER(Eigen::bfloat16)

#endif  // FEDPLUG_TF_ELEMENT_TYPE_H_
