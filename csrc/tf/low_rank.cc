// Fedplug>MatrixTimes and Fedplug>LowRankMatrix on the CPU.
#include "core/low_rank.h"

#include "core/matrix_times.h"
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
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status MatrixTimesShape(InferenceContext* c) {
  bool transposed;
  TF_RETURN_IF_ERROR(c->GetAttr("transposed", &transposed));
  ShapeHandle a, b;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &a));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &b));
  const DimensionHandle terms = c->Dim(a, transposed ? 0 : 1);
  const DimensionHandle sums = c->Dim(a, transposed ? 1 : 0);
  DimensionHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(terms, c->Dim(b, 0), &merged));
  c->set_output(0, c->Matrix(sums, c->Dim(b, 1)));
  return tensorflow::OkStatus();
}

// The shape of the product of factors `p` and p + 1.
tensorflow::Status ProductShape(InferenceContext* c, int p,
                                ShapeHandle* product) {
  ShapeHandle of_rows, of_columns;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p), 2, &of_rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(p + 1), 2, &of_columns));
  DimensionHandle rank;
  TF_RETURN_IF_ERROR(
      c->Merge(c->Dim(of_rows, 1), c->Dim(of_columns, 1), &rank));
  *product = c->Matrix(c->Dim(of_rows, 0), c->Dim(of_columns, 0));
  return tensorflow::OkStatus();
}

tensorflow::Status LowRankMatrixShape(InferenceContext* c) {
  ShapeHandle product;
  TF_RETURN_IF_ERROR(ProductShape(c, 0, &product));
  c->set_output(0, product);
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>MatrixTimes")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("transposed: bool = false")
    .Attr("T: {float, double}")
    .SetShapeFn(MatrixTimesShape);

REGISTER_OP("Fedplug>LowRankMatrix")
    .Input("p: T")
    .Input("q: T")
    .Output("matrix: T")
    .Attr("T: {float, double}")
    .SetShapeFn(LowRankMatrixShape);

tensorflow::Status RequireMatrix(const Tensor& tensor, const char* name) {
  if (tensor.dims() == 2) return tensorflow::OkStatus();
  return InvalidArgument(name, " must be a matrix, not of shape ",
                         tensor.shape().DebugString());
}

tensorflow::Status ShapesDoNotFit(const Tensor& a, const char* a_name,
                                  const Tensor& b, const char* b_name) {
  return InvalidArgument(a_name, " of shape ", a.shape().DebugString(), " and ",
                         b_name, " of shape ", b.shape().DebugString(),
                         " do not fit");
}

template <typename T>
class MatrixTimesOp : public OpKernel {
 public:
  explicit MatrixTimesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("transposed", &transposed_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& a = context->input(0);
    const Tensor& b = context->input(1);
    OP_REQUIRES_OK(context, RequireMatrix(a, "a"));
    OP_REQUIRES_OK(context, RequireMatrix(b, "b"));
    const MatrixShape shape{a.dim_size(0), a.dim_size(1), b.dim_size(1)};
    OP_REQUIRES(context, a.dim_size(transposed_ ? 0 : 1) == b.dim_size(0),
                ShapesDoNotFit(a, "a", b, "b"));
    Tensor* product;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 0,
                                  {a.dim_size(transposed_ ? 1 : 0), shape.rank},
                                  &product));
    IntraOpPool pool(context);
    auto* const times = transposed_ ? TransposedTimes<T> : MatrixTimes<T>;
    OP_REQUIRES_OK(
        context, ToTensorFlow(times(Elements<T>(a), Elements<T>(b), shape, pool,
                                    MutableElements<T>(product))));
  }

 private:
  bool transposed_ = false;
};

// The factors `p` and p + 1.
template <typename T>
struct Factors {
  const T* p;
  const T* q;
  MatrixShape shape;
};

template <typename T>
tensorflow::Status ReadFactors(OpKernelContext* context, int p,
                               Factors<T>* factors) {
  const Tensor& of_rows = context->input(p);
  const Tensor& of_columns = context->input(p + 1);
  TF_RETURN_IF_ERROR(RequireMatrix(of_rows, "p"));
  TF_RETURN_IF_ERROR(RequireMatrix(of_columns, "q"));
  if (of_rows.dim_size(1) != of_columns.dim_size(1)) {
    return ShapesDoNotFit(of_rows, "p", of_columns, "q");
  }
  factors->p = Elements<T>(of_rows);
  factors->q = Elements<T>(of_columns);
  factors->shape = {of_rows.dim_size(0), of_columns.dim_size(0),
                    of_rows.dim_size(1)};
  return tensorflow::OkStatus();
}

template <typename T>
class LowRankMatrixOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Factors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, 0, &factors));
    Tensor* matrix;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, 0, {factors.shape.rows, factors.shape.columns},
                       &matrix));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(
        context, ToTensorFlow(LowRankMatrix(factors.p, factors.q, factors.shape,
                                            pool, MutableElements<T>(matrix))));
  }
};

FEDPLUG_REGISTER_WIDE("Fedplug>MatrixTimes", MatrixTimesOp);
FEDPLUG_REGISTER_WIDE("Fedplug>LowRankMatrix", LowRankMatrixOp);

}  // namespace
}  // namespace fedplug
