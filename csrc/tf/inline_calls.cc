// Fedplug>CallInline and Fedplug>ReduceInline: calls of functions in the thread of the caller. Not registered
// for GPUs, where TensorFlow's own calls are better.
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/kernels/data/iterator_ops.h"
#include "tf/inline_function.h"

namespace fedplug {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::data::IteratorResource;

REGISTER_OP("Fedplug>CallInline")
    .Input("arguments: Tin")
    .Output("results: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("f: func")
    .Attr("one_thread: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Calls a function, and runs its operations one after the other in the thread of
the caller.

TensorFlow runs every call of a function, and every operation that it deems
expensive, in its pool of threads; for small ones, waking a thread costs more
than the work. The results are those of a call by name.

arguments: The arguments of `f`.
results: The results of `f`.
f: A function of the context. TensorFlow does not change its graph.
one_thread: Whether operations do their work in that thread instead of
  TensorFlow's pool, for as many parallel calls as there are processors. The
  last bits of operations that add up in parts, one per thread, may differ.
)doc");

class CallInlineOp : public OpKernel {
 public:
  explicit CallInlineOp(OpKernelConstruction* context) : OpKernel(context) {
    tensorflow::NameAttrList function;
    OP_REQUIRES_OK(context, context->GetAttr("f", &function));
    OP_REQUIRES_OK(context, context->GetAttr("one_thread", &one_thread_));
    function_ =
        std::make_unique<InlineFunction>(std::move(function), Called::kOnce);
  }

  void Compute(OpKernelContext* context) override {
    std::vector<Tensor> arguments, results;
    for (int i = 0; i < context->num_inputs(); ++i) {
      arguments.push_back(context->input(i));
    }
    OP_REQUIRES_OK(context,
                   function_->Run(context, one_thread_, arguments, &results));
    for (std::size_t i = 0; i < results.size(); ++i) {
      context->set_output(static_cast<int>(i), std::move(results[i]));
    }
  }

 private:
  std::unique_ptr<InlineFunction> function_;
  bool one_thread_;
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>CallInline").Device(tensorflow::DEVICE_CPU), CallInlineOp);

REGISTER_OP("Fedplug>ReduceInline")
    .Input("iterator: resource")
    .Input("state: Tstate")
    .Input("captured: Tcaptured")
    .Output("reduced: Tstate")
    .Attr("Tstate: list(type) >= 1")
    .Attr("Tcaptured: list(type) >= 0")
    .Attr("f: func")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Reduces the remaining elements of an iterator, one after the other, in the
thread of the caller, as ReduceDataset does, but instantiates the function once.

Whether operations of the function share their work among TensorFlow's threads
is as in the function that this is a part of.

It can be cancelled between two elements.

iterator: An iterator over elements of any number of components.
state: The initial state.
captured: Further arguments of the function.
reduced: The last state.
f: `(state, components of an element, captured) -> state`, a function of the
  context. TensorFlow's optimizer only leaves out of it what computes nothing.
)doc");

// The device has the threads that its operations share their work among. Those
// of a function that was called with one thread see a device without others.
bool HasOneThread(OpKernelContext* context) {
  return context->device()->tensorflow_cpu_worker_threads()->num_threads == 1;
}

class ReduceInlineOp : public OpKernel {
 public:
  explicit ReduceInlineOp(OpKernelConstruction* context) : OpKernel(context) {
    tensorflow::NameAttrList function;
    OP_REQUIRES_OK(context, context->GetAttr("f", &function));
    function_ =
        std::make_unique<InlineFunction>(std::move(function), Called::kInALoop);
  }

  void Compute(OpKernelContext* context) override {
    OpInputList state, captured;
    OP_REQUIRES_OK(context, context->input_list("state", &state));
    OP_REQUIRES_OK(context, context->input_list("captured", &captured));
    std::vector<Tensor> reduced(state.begin(), state.end());
    OP_REQUIRES_OK(context, Reduce(context, captured, &reduced));
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      context->set_output(static_cast<int>(i), std::move(reduced[i]));
    }
  }

 private:
  Status Reduce(OpKernelContext* context, const OpInputList& captured,
                std::vector<Tensor>* state) {
    tensorflow::core::RefCountPtr<IteratorResource> iterator;
    TF_RETURN_IF_ERROR(tensorflow::LookupResource(
        context, tensorflow::HandleFromInput(context, 0), &iterator));
    const bool one_thread = HasOneThread(context);
    auto* const cancellation = context->cancellation_manager();
    std::vector<Tensor> element, arguments;
    while (true) {
      if (cancellation != nullptr && cancellation->IsCancelled()) {
        return tensorflow::errors::Cancelled("the reduction was cancelled");
      }
      bool ended = false;
      element.clear();
      TF_RETURN_IF_ERROR(iterator->GetNext(context, &element, &ended));
      if (ended) return tensorflow::OkStatus();
      arguments = std::move(*state);
      arguments.insert(arguments.end(),
                       std::make_move_iterator(element.begin()),
                       std::make_move_iterator(element.end()));
      arguments.insert(arguments.end(), captured.begin(), captured.end());
      state->clear();
      TF_RETURN_IF_ERROR(function_->Run(context, one_thread, arguments, state));
    }
  }

  std::unique_ptr<InlineFunction> function_;
};

REGISTER_KERNEL_BUILDER(
    Name("Fedplug>ReduceInline").Device(tensorflow::DEVICE_CPU),
    ReduceInlineOp);

}  // namespace
}  // namespace fedplug
