// Fedplug>ScatterDecodeAdd and Fedplug>ScatterDecode on the CPU: call the core.
#include "core/scatter_decode.h"

#include <algorithm>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/scatter_decode_ops.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
struct Cpu {
  static tensorflow::Status Copy(OpKernelContext* /*context*/,
                                 const Tensor& from, Tensor* to) {
    std::copy_n(Elements<T>(from), from.NumElements(), MutableElements<T>(to));
    return tensorflow::OkStatus();
  }

  static tensorflow::Status Add(OpKernelContext* context,
                                const PayloadInputs<T>& payloads, Tensor* sum) {
    return Call(ScatterDecodeAdd<CoreType<T>>, context, payloads, sum);
  }

  static tensorflow::Status Decode(OpKernelContext* context,
                                   const PayloadInputs<T>& payloads,
                                   Tensor* sum) {
    return Call(ScatterDecode<CoreType<T>>, context, payloads, sum);
  }

 private:
  template <typename Kernel>
  static tensorflow::Status Call(Kernel kernel, OpKernelContext* context,
                                 const PayloadInputs<T>& payloads,
                                 Tensor* sum) {
    IntraOpPool pool(context);
    return ToTensorFlow(kernel(MutableElements<T>(sum), sum->NumElements(),
                               payloads.values, payloads.indices,
                               payloads.entries, payloads.row_splits,
                               payloads.payloads, payloads.weights, pool));
  }
};

#define FEDPLUG_REGISTER(T)                                   \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecodeAdd")    \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          ScatterDecodeAddOp<T, Cpu<T>>);     \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>ScatterDecode")       \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          ScatterDecodeOp<T, Cpu<T>>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
