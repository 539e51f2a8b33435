// Fedplug>ReduceInline on the CPU: the loop around the function.
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/kernels/data/iterator_ops.h"
#include "tf/kernels/inline_function.h"

namespace fedplug {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::data::IteratorResource;

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
