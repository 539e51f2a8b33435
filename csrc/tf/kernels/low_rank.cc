// Fedplug>SumAndLargest, Fedplug>MatrixTimes, Fedplug>LowRankMatrix and
// Fedplug>LowRankResidual on the CPU: check, allocate, call the core.
#include "core/low_rank.h"

#include "core/matrix_times.h"
#include "core/sum_and_largest.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf/kernels/element_type.h"
#include "tf/kernels/inputs.h"
#include "tf/kernels/outputs.h"
#include "tf/kernels/parallel.h"
#include "tf/kernels/status.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::errors::InvalidArgument;

template <typename T>
using WideType = value_loops::WideOf<CoreType<T>>;

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

template <typename Wide>
tensorflow::Status ReadScale(const Tensor& tensor, Wide* scale) {
  TF_RETURN_IF_ERROR(RequireScalar(tensor, "scale"));
  *scale = tensor.scalar<Wide>()();
  return tensorflow::OkStatus();
}

template <typename T>
class SumAndLargestOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& delta = context->input(0);
    const Tensor& residual = context->input(1);
    OP_REQUIRES_OK(context, RequireSameShape(delta, residual));
    Tensor *sum, *largest;
    OP_REQUIRES_OK(context, ForwardInputOrAllocateOutput(
                                context, 1, 0, residual.shape(), &sum));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, {}, &largest));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(
        context,
        ToTensorFlow(SumAndLargest(
            Elements<T>(delta), Elements<T>(residual), delta.NumElements(),
            pool, MutableElements<T>(sum), MutableElements<T>(largest))));
  }
};

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
    T scale;
    OP_REQUIRES_OK(context, ReadScale(context->input(2), &scale));
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
        context, ToTensorFlow(times(Elements<T>(a), scale, Elements<T>(b),
                                    shape, pool, MutableElements<T>(product))));
  }

 private:
  bool transposed_ = false;
};

// The factors `p` and p + 1, and the scale that follows.
template <typename Wide>
struct Factors {
  const Wide* p;
  const Wide* q;
  Wide scale;
  MatrixShape shape;
};

template <typename Wide>
tensorflow::Status ReadFactors(OpKernelContext* context, int p,
                               Factors<Wide>* factors) {
  const Tensor& of_rows = context->input(p);
  const Tensor& of_columns = context->input(p + 1);
  TF_RETURN_IF_ERROR(RequireMatrix(of_rows, "p"));
  TF_RETURN_IF_ERROR(RequireMatrix(of_columns, "q"));
  TF_RETURN_IF_ERROR(ReadScale(context->input(p + 2), &factors->scale));
  if (of_rows.dim_size(1) != of_columns.dim_size(1)) {
    return ShapesDoNotFit(of_rows, "p", of_columns, "q");
  }
  factors->p = of_rows.flat<Wide>().data();
  factors->q = of_columns.flat<Wide>().data();
  factors->shape = {of_rows.dim_size(0), of_columns.dim_size(0),
                    of_rows.dim_size(1)};
  return tensorflow::OkStatus();
}

template <typename T>
class LowRankMatrixOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Factors<WideType<T>> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, 0, &factors));
    Tensor* matrix;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, 0, {factors.shape.rows, factors.shape.columns},
                       &matrix));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(
        context, ToTensorFlow(LowRankMatrix(factors.p, factors.q, factors.scale,
                                            factors.shape, pool,
                                            MutableElements<T>(matrix))));
  }
};

template <typename T>
class LowRankResidualOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& a = context->input(0);
    Factors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, 1, &factors));
    const TensorShape shape{factors.shape.rows, factors.shape.columns};
    OP_REQUIRES(
        context, a.shape() == shape,
        InvalidArgument("a has shape ", a.shape().DebugString(),
                        " but the product of p and q has ", shape.DebugString(),
                        "; the two must be equal"));
    Tensor* residual;
    OP_REQUIRES_OK(
        context, ForwardInputOrAllocateOutput(context, 0, 0, shape, &residual));
    IntraOpPool pool(context);
    OP_REQUIRES_OK(context,
                   ToTensorFlow(LowRankResidual(
                       Elements<T>(a), factors.p, factors.q, factors.scale,
                       factors.shape, pool, MutableElements<T>(residual))));
  }
};

#define FEDPLUG_REGISTER_OF(NAME, OP, T) \
  REGISTER_KERNEL_BUILDER(               \
      Name(NAME).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), OP<T>)
#define FEDPLUG_REGISTER(T)                                         \
  FEDPLUG_REGISTER_OF("Fedplug>SumAndLargest", SumAndLargestOp, T); \
  FEDPLUG_REGISTER_OF("Fedplug>MatrixTimes", MatrixTimesOp, T);     \
  FEDPLUG_REGISTER_OF("Fedplug>LowRankResidual", LowRankResidualOp, T)
FEDPLUG_FOR_EACH_WIDE_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER
#undef FEDPLUG_REGISTER_OF

#define FEDPLUG_REGISTER(T)                                         \
  REGISTER_KERNEL_BUILDER(Name("Fedplug>LowRankMatrix")             \
                              .Device(tensorflow::DEVICE_CPU)       \
                              .TypeConstraint<T>("T")               \
                              .TypeConstraint<WideType<T>>("Wide"), \
                          LowRankMatrixOp<T>)
FEDPLUG_FOR_EACH_ELEMENT_TYPE(FEDPLUG_REGISTER);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
