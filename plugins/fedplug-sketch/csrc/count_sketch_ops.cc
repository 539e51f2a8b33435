// The ops FedplugSketch>CountSketch and FedplugSketch>Estimate: declaration,
// checks and allocation. fedplug_sketch/ops.py documents them.
#include <cstdint>
#include <limits>

#include "count_sketch.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace fedplug_sketch {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeUtils;
using tensorflow::errors::InvalidArgument;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kCyclesPerElement = 4;

tensorflow::Status CountSketchShape(InferenceContext* c) {
  ShapeHandle ignored, keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &keys));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  DimensionHandle columns;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(2, &columns));
  c->set_output(0, c->Matrix(c->Dim(keys, 0), columns));
  return tensorflow::OkStatus();
}

tensorflow::Status EstimateShape(InferenceContext* c) {
  ShapeHandle table, keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &table));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &keys));
  DimensionHandle ignored, size;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(table, 0), c->Dim(keys, 0), &ignored));
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(2, &size));
  c->set_output(0, c->Vector(size));
  return tensorflow::OkStatus();
}

REGISTER_OP("FedplugSketch>CountSketch")
    .Attr("T: {float32, float64}")
    .Input("x: T")
    .Input("keys: uint64")
    .Input("columns: int64")
    .Output("table: T")
    .SetShapeFn(CountSketchShape);

REGISTER_OP("FedplugSketch>Estimate")
    .Attr("T: {float32, float64}")
    .Input("table: T")
    .Input("keys: uint64")
    .Input("size: int64")
    .Output("estimates: T")
    .SetShapeFn(EstimateShape);

tensorflow::Status ReadCount(const Tensor& tensor, const char* name,
                             std::int64_t* value) {
  if (!TensorShapeUtils::IsScalar(tensor.shape())) {
    return InvalidArgument(name, " must be a scalar, not of shape ",
                           tensor.shape().DebugString());
  }
  *value = tensor.scalar<std::int64_t>()();
  if (*value >= 0 && *value <= kLimit) return tensorflow::OkStatus();
  return InvalidArgument(name, " must be in [0, 2^31), not ", *value);
}

template <typename T>
class CountSketchOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    const Tensor& keys = context->input(1);
    std::int64_t columns;
    OP_REQUIRES_OK(context, ReadCount(context->input(2), "columns", &columns));
    OP_REQUIRES(context,
                TensorShapeUtils::IsVector(x.shape()) &&
                    TensorShapeUtils::IsVector(keys.shape()),
                InvalidArgument("x and keys must be vectors"));
    const std::int64_t n = x.NumElements(), rows = keys.NumElements();
    OP_REQUIRES(context, columns > 0 || n == 0,
                InvalidArgument("a table for ", n,
                                " elements needs at least one column"));

    Tensor* table;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, {rows, columns}, &table));
    table->flat<T>().setZero();
    const T* from = x.flat<T>().data();
    const std::uint64_t* key = keys.flat<tensorflow::uint64>().data();
    T* to = table->flat<T>().data();
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    const int parts = ColumnParts<T>(n, workers.num_threads);
    tensorflow::Shard(
        workers.num_threads, workers.workers, rows * parts,
        n * kCyclesPerElement, [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t task = begin; task < end; ++task) {
            const std::int64_t r = task / parts, part = task % parts;
            SketchColumns(from, n, key[r], columns, columns * part / parts,
                          columns * (part + 1) / parts, to + r * columns);
          }
        });
  }
};

template <typename T>
class EstimateOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& table = context->input(0);
    const Tensor& keys = context->input(1);
    std::int64_t size;
    OP_REQUIRES_OK(context, ReadCount(context->input(2), "size", &size));
    OP_REQUIRES(context,
                TensorShapeUtils::IsMatrix(table.shape()) &&
                    TensorShapeUtils::IsVector(keys.shape()) &&
                    keys.NumElements() == table.dim_size(0) &&
                    keys.NumElements() > 0,
                InvalidArgument("a table needs one key for each row; shapes ",
                                table.shape().DebugString(), " and ",
                                keys.shape().DebugString()));
    const std::int64_t rows = table.dim_size(0), columns = table.dim_size(1);
    OP_REQUIRES(
        context, (columns > 0 && columns <= kLimit) || size == 0,
        InvalidArgument("a table of ", columns, " columns holds no elements"));

    Tensor* estimates;
    OP_REQUIRES_OK(context, context->allocate_output(0, {size}, &estimates));
    const T* from = table.flat<T>().data();
    const std::uint64_t* key = keys.flat<tensorflow::uint64>().data();
    T* to = estimates->flat<T>().data();
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(workers.num_threads, workers.workers, size,
                      rows * kCyclesPerElement,
                      [=](std::int64_t begin, std::int64_t end) {
                        EstimateRange(from, key, rows, columns, begin, end, to);
                      });
  }
};

#define FEDPLUG_SKETCH_REGISTER(T)                            \
  REGISTER_KERNEL_BUILDER(Name("FedplugSketch>CountSketch")   \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          CountSketchOp<T>);                  \
  REGISTER_KERNEL_BUILDER(Name("FedplugSketch>Estimate")      \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          EstimateOp<T>)

FEDPLUG_SKETCH_REGISTER(float);
FEDPLUG_SKETCH_REGISTER(double);

#undef FEDPLUG_SKETCH_REGISTER

}  // namespace
}  // namespace fedplug_sketch
