// Fedplug>CallInline on the CPU: calls the function with its arguments.
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/inline_function.h"

namespace fedplug {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

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

// Not registered for GPUs, where TensorFlow's own calls are better.
REGISTER_KERNEL_BUILDER(
    Name("Fedplug>CallInline").Device(tensorflow::DEVICE_CPU), CallInlineOp);

}  // namespace
}  // namespace fedplug
