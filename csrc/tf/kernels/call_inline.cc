// Fedplug>CallInline on the CPU: instantiates the function once, and runs it
// without a thread of TensorFlow's.
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/setround.h"
#include "tensorflow/core/platform/threadpool_interface.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace fedplug {
namespace {

using tensorflow::FunctionLibraryRuntime;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

using Runner = std::function<void(std::function<void()>)>;

// An operation that ends at once, though it need not, has those after it run
// within its own call: without a bound, a long loop of them would exhaust the
// stack.
constexpr int kMaxDepth = 32;
thread_local int depth = 0;

// Runs work here, in the floating-point environment of TensorFlow's threads;
// too deep in other work, it leaves it to `others`.
Runner RunHere(Runner* others) {
  return [others](std::function<void()> work) {
    if (depth == kMaxDepth) return (*others)(std::move(work));
    const tensorflow::port::ScopedFlushDenormal flush;
    const tensorflow::port::ScopedSetRound round(FE_TONEAREST);
    ++depth;
    work();
    --depth;
  };
}

// A pool without threads: who hands it work does it.
class NoThreads : public tensorflow::thread::ThreadPoolInterface {
 public:
  void Schedule(std::function<void()> work) override { work(); }
  int NumThreads() const override { return 1; }
  int CurrentThreadId() const override { return -1; }  // of no pool
};

class CallInlineOp : public OpKernel {
 public:
  explicit CallInlineOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("f", &function_));
    OP_REQUIRES_OK(context, context->GetAttr("one_thread", &one_thread_));
  }

  ~CallInlineOp() override {
    if (library_ != nullptr) library_->ReleaseHandle(handle_).IgnoreError();
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, Instantiate(context));
    FunctionLibraryRuntime* library = context->function_library();
    FunctionLibraryRuntime::Options options;
    tensorflow::ScopedStepContainer container(
        options.step_id, [library](const std::string& name) {
          library->device()->resource_manager()->Cleanup(name).IgnoreError();
        });
    Runner runner = RunHere(context->runner());
    options.step_container = &container;
    options.cancellation_manager = context->cancellation_manager();
    options.collective_executor = context->collective_executor();
    options.stats_collector = context->stats_collector();
    options.runner = &runner;
    options.run_all_kernels_inline = true;
    if (one_thread_) options.user_intra_op_threadpool = &no_threads_;
    options.source_device = library->device()->name();
    options.allow_dead_tensors = true;
    options.create_rendezvous = true;
    std::vector<Tensor> arguments, results;
    for (int i = 0; i < context->num_inputs(); ++i) {
      arguments.push_back(context->input(i));
    }
    // Shared, as who says that it has ended may be within it when we go on.
    const auto ended = std::make_shared<std::promise<tensorflow::Status>>();
    library->Run(options, handle_, arguments, &results,
                 [ended](const tensorflow::Status& status) {
                   ended->set_value(status);
                 });
    OP_REQUIRES_OK(context, ended->get_future().get());
    for (std::size_t i = 0; i < results.size(); ++i) {
      context->set_output(static_cast<int>(i), std::move(results[i]));
    }
  }

 private:
  // As TensorFlow's eager runtime does it for a call by name.
  tensorflow::Status Instantiate(OpKernelContext* context) {
    const tensorflow::mutex_lock lock(mutex_);
    if (library_ != nullptr) return tensorflow::OkStatus();
    FunctionLibraryRuntime* library = context->function_library();
    FunctionLibraryRuntime::InstantiateOptions options;
    options.target = library->device()->name();
    options.is_multi_device_function = true;
    options.input_devices.assign(
        static_cast<std::size_t>(context->num_inputs()), options.target);
    auto* graph = options.config_proto.mutable_graph_options();
    graph->mutable_rewrite_options()->set_disable_meta_optimizer(true);
    graph->mutable_optimizer_options()->set_do_function_inlining(true);
    TF_RETURN_IF_ERROR(library->Instantiate(
        function_.name(), tensorflow::AttrSlice(&function_.attr()), options,
        &handle_));
    library_ = library;
    return tensorflow::OkStatus();
  }

  tensorflow::NameAttrList function_;
  bool one_thread_;
  NoThreads no_threads_;
  tensorflow::mutex mutex_;
  FunctionLibraryRuntime* library_ = nullptr;
  FunctionLibraryRuntime::Handle handle_;
};

// Functions on a GPU are best run as TensorFlow does: not registered for it.
REGISTER_KERNEL_BUILDER(
    Name("Fedplug>CallInline").Device(tensorflow::DEVICE_CPU), CallInlineOp);

}  // namespace
}  // namespace fedplug
