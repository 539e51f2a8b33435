// Fedplug>MatrixTimes and Fedplug>LowRankMatrix on the CPU.
#include "core/low_rank.h"

#include "core/matrix_times.h"
#include "tf/op.h"
#include "tf/parallel.h"

namespace fedplug {
namespace {

tensorflow::Status MatrixTimesShape(InferenceContext* c) {
  bool transposed;
  TF_RETURN_IF_ERROR(c->GetAttr("transposed", &transposed));
  TF_RETURN_IF_ERROR(CheckRanks(c, {2, 2}));
  const ShapeHandle a = c->input(0), b = c->input(1);
  const DimensionHandle terms = c->Dim(a, transposed ? 0 : 1);
  const DimensionHandle sums = c->Dim(a, transposed ? 1 : 0);
  DimensionHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(terms, c->Dim(b, 0), &merged));
  c->set_output(0, c->Matrix(sums, c->Dim(b, 1)));
  return tensorflow::OkStatus();
}

tensorflow::Status LowRankMatrixShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckRanks(c, {2, 2}));
  const ShapeHandle p = c->input(0), q = c->input(1);
  DimensionHandle rank;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(p, 1), c->Dim(q, 1), &rank));
  c->set_output(0, c->Matrix(c->Dim(p, 0), c->Dim(q, 0)));
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

tensorflow::Status RequireMatrices(const Tensor& a, const char* a_name,
                                   const Tensor& b, const char* b_name) {
  TF_RETURN_IF_ERROR(RequireRank(a, a_name, 2, "matrix"));
  return RequireRank(b, b_name, 2, "matrix");
}

tensorflow::Status ShapesDoNotFit(const Tensor& a, const char* a_name,
                                  const Tensor& b, const char* b_name) {
  return InvalidArgument(a_name, " of shape ", a.shape().DebugString(), " and ",
                         b_name, " of shape ", b.shape().DebugString(),
                         " do not fit");
}

struct Transposed {
  bool transposed;

  tensorflow::Status Read(OpKernelConstruction* context) {
    return context->GetAttr("transposed", &transposed);
  }
};

template <typename T>
tensorflow::Status ComputeMatrixTimes(OpKernelContext* context,
                                      const Transposed& attributes) {
  const bool transposed = attributes.transposed;
  const Tensor& a = context->input(0);
  const Tensor& b = context->input(1);
  TF_RETURN_IF_ERROR(RequireMatrices(a, "a", b, "b"));
  const MatrixShape shape{a.dim_size(0), a.dim_size(1), b.dim_size(1)};
  if (a.dim_size(transposed ? 0 : 1) != b.dim_size(0)) {
    return ShapesDoNotFit(a, "a", b, "b");
  }
  Tensor* product;
  const std::int64_t sums = a.dim_size(transposed ? 1 : 0);
  TF_RETURN_IF_ERROR(AllocateOutput(context, 0, {sums, shape.rank}, &product));
  IntraOpPool pool(context);
  auto* const times = transposed ? TransposedTimes<T> : MatrixTimes<T>;
  return ToTensorFlow(times(Elements<T>(a), Elements<T>(b), shape, pool,
                            MutableElements<T>(product)));
}

template <typename T>
tensorflow::Status ComputeLowRankMatrix(OpKernelContext* context) {
  const Tensor& p = context->input(0);
  const Tensor& q = context->input(1);
  TF_RETURN_IF_ERROR(RequireMatrices(p, "p", q, "q"));
  if (p.dim_size(1) != q.dim_size(1)) return ShapesDoNotFit(p, "p", q, "q");
  const MatrixShape shape{p.dim_size(0), q.dim_size(0), p.dim_size(1)};
  Tensor* matrix;
  TF_RETURN_IF_ERROR(
      AllocateOutput(context, 0, {shape.rows, shape.columns}, &matrix));
  IntraOpPool pool(context);
  return ToTensorFlow(LowRankMatrix(Elements<T>(p), Elements<T>(q), shape, pool,
                                    MutableElements<T>(matrix)));
}

FEDPLUG_REGISTER_WIDE("Fedplug>MatrixTimes", ComputeMatrixTimes);
FEDPLUG_REGISTER_WIDE("Fedplug>LowRankMatrix", ComputeLowRankMatrix);

}  // namespace
}  // namespace fedplug
