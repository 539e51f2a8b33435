// Fedplug>ScatterDecodeAdd and Fedplug>ScatterDecode: declarations, and kernels on the CPU.
#include "core/scatter_decode.h"

#include <algorithm>

#include "tf/parallel.h"
#include "tf/scatter_decode.h"

namespace fedplug {
namespace {

// The payloads are the inputs after the first.
tensorflow::Status CheckPayloadShapes(InferenceContext* c) {
  ShapeHandle values, indices, row_splits, weights, entries;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &values));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &indices));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &row_splits));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 1, &weights));
  TF_RETURN_IF_ERROR(c->Merge(values, indices, &entries));
  DimensionHandle payloads;
  TF_RETURN_IF_ERROR(c->Subtract(c->Dim(row_splits, 0), 1, &payloads));
  return c->Merge(payloads, c->Dim(weights, 0), &payloads);
}

tensorflow::Status ScatterDecodeAddShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckPayloadShapes(c));
  c->set_output(0, c->input(0));
  return tensorflow::OkStatus();
}

tensorflow::Status ScatterDecodeShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {0}));
  TF_RETURN_IF_ERROR(CheckPayloadShapes(c));
  return SetVectorOutput(c, 0);
}

REGISTER_OP("Fedplug>ScatterDecodeAdd")
    .Input("accumulator: T")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Output("sum: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(ScatterDecodeAddShape);

REGISTER_OP("Fedplug>ScatterDecode")
    .Input("size: int64")
    .Input("values: T")
    .Input("indices: int32")
    .Input("row_splits: int64")
    .Input("weights: T")
    .Output("sum: T")
    .Attr("T: {float, double, bfloat16, half}")
    .SetShapeFn(ScatterDecodeShape);

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

template <typename T>
constexpr auto kAdd = ComputeScatterDecodeAdd<T, Cpu<T>>;
template <typename T>
constexpr auto kDecode = ComputeScatterDecode<T, Cpu<T>>;
FEDPLUG_REGISTER_FLOATING("Fedplug>ScatterDecodeAdd", kAdd);
FEDPLUG_REGISTER_FLOATING("Fedplug>ScatterDecode", kDecode);

}  // namespace
}  // namespace fedplug
