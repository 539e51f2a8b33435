#include "tf/inline_function.h"

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/grappler/op_types.h"
#include "tensorflow/core/grappler/optimizers/meta_optimizer.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/setround.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace fedplug {
namespace {

using tensorflow::AttrValue;
using tensorflow::FunctionDef;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::FunctionLibraryRuntime;
using tensorflow::NodeDef;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

using Runner = std::function<void(std::function<void()>)>;

// An asynchronous operation that ends at once runs its successors within its
// own call: without a bound, a long loop would overflow the stack.
constexpr int kMaxDepth = 32;
thread_local int depth = 0;

// Runs this thread's offers here, in the floating-point environment of
// TensorFlow's threads. `others` gets offers that are too deep in other
// work, and those of other threads: a data set's, which wants to go on with
// the next element. A data set keeps copies of a runner, so it is not referred
// to.
Runner RunHere(Runner others) {
  return [others = std::move(others),
          here = std::this_thread::get_id()](std::function<void()> work) {
    if (depth == kMaxDepth || std::this_thread::get_id() != here) {
      return others(std::move(work));
    }
    const tensorflow::port::ScopedFlushDenormal flush;
    const tensorflow::port::ScopedSetRound round(FE_TONEAREST);
    ++depth;
    work();
    --depth;
  };
}

bool HasFunction(const NodeDef& node) {
  return std::any_of(node.attr().begin(), node.attr().end(),
                     [](const auto& attribute) {
                       const AttrValue& value = attribute.second;
                       return value.has_func() || value.list().func_size() > 0;
                     });
}

bool IsStraight(const FunctionLibraryDefinition& library,
                const std::string& name);

// Whether a node is an operation, or a call that TensorFlow inlines.
bool IsStraight(const FunctionLibraryDefinition& library, const NodeDef& node) {
  namespace grappler = tensorflow::grappler;
  if (grappler::IsSwitch(node) || grappler::IsMerge(node) ||
      grappler::ModifiesFrameInfo(node) || grappler::IsLoopCond(node)) {
    return false;
  }
  if (grappler::IsPartitionedCall(node) ||
      grappler::IsStatefulPartitionedCall(node)) {
    return IsStraight(library, node.attr().at("f").func().name());
  }
  if (library.Contains(node.op())) return IsStraight(library, node.op());
  return !HasFunction(node);
}

// Whether every node of a function is.
bool IsStraight(const FunctionLibraryDefinition& library,
                const std::string& name) {
  const FunctionDef* const function = library.Find(name);
  if (function == nullptr) return false;
  bool never_inlined = false;
  tensorflow::TryGetNodeAttr(tensorflow::AttrSlice(&function->attr()),
                             "_noinline", &never_inlined);
  return !never_inlined &&
         std::all_of(
             function->node_def().begin(), function->node_def().end(),
             [&](const NodeDef& node) { return IsStraight(library, node); });
}

// Removes nodes that compute nothing, which inlined calls leave behind: half of
// a training step. Other passes of TensorFlow's optimizer are not run, because
// some change the last bits of results.
tensorflow::Status LeaveOutIdentities(
    std::vector<std::string> results, std::vector<std::string> kept,
    FunctionLibraryDefinition* library, const tensorflow::DeviceSet& devices,
    tensorflow::Device* cpu, std::unique_ptr<tensorflow::Graph>* graph) {
  tensorflow::ConfigProto config;
  auto* const passes =
      config.mutable_graph_options()->mutable_rewrite_options();
  passes->add_optimizers("pruning");
  passes->add_optimizers("dependency");
  tensorflow::grappler::GrapplerItem::OptimizationOptions options;
  options.allow_pruning_stateful_and_dataset_ops = false;
  options.optimize_function_library = false;
  return tensorflow::grappler::OptimizeGraph(
      std::move(results), std::move(kept), library, devices, cpu, config,
      "fedplug", options, graph);
}

}  // namespace

InlineFunction::InlineFunction(tensorflow::NameAttrList function, Called called)
    : function_(std::move(function)), called_(called) {}

InlineFunction::~InlineFunction() {
  if (library_ != nullptr) library_->ReleaseHandle(handle_).IgnoreError();
}

tensorflow::Status InlineFunction::Run(OpKernelContext* context,
                                       bool one_thread,
                                       const std::vector<Tensor>& arguments,
                                       std::vector<Tensor>* results) {
  FunctionLibraryRuntime* const library = context->function_library();
  TF_RETURN_IF_ERROR(Instantiate(library, arguments.size()));
  FunctionLibraryRuntime::Options options;
  tensorflow::ScopedStepContainer container(
      options.step_id, [library](const std::string& name) {
        library->device()->resource_manager()->Cleanup(name).IgnoreError();
      });
  Runner runner = RunHere(*context->runner());
  options.step_container = &container;
  options.cancellation_manager = context->cancellation_manager();
  options.collective_executor = context->collective_executor();
  options.stats_collector = context->stats_collector();
  options.runner = &runner;
  options.run_all_kernels_inline = true;
  if (one_thread) options.user_intra_op_threadpool = &no_threads_;
  options.source_device = library->device()->name();
  options.allow_dead_tensors = true;
  options.create_rendezvous = true;
  // Shared, because the thread that signals the end may still use it when this
  // one continues.
  const auto ended = std::make_shared<std::promise<tensorflow::Status>>();
  library->Run(
      options, handle_, arguments, results,
      [ended](const tensorflow::Status& status) { ended->set_value(status); });
  return ended->get_future().get();
}

// As TensorFlow's eager runtime does it for a call by name.
tensorflow::Status InlineFunction::Instantiate(FunctionLibraryRuntime* library,
                                               std::size_t arguments) {
  const tensorflow::mutex_lock lock(mutex_);
  if (library_ != nullptr) return tensorflow::OkStatus();
  FunctionLibraryRuntime::InstantiateOptions options;
  options.target = library->device()->name();
  options.is_multi_device_function = true;
  options.input_devices.assign(arguments, options.target);
  auto* const graph = options.config_proto.mutable_graph_options();
  graph->mutable_rewrite_options()->set_disable_meta_optimizer(true);
  graph->mutable_optimizer_options()->set_do_function_inlining(true);
  options.executor_type = kPooledExecutor;
  if (IsStraight(*library->GetFunctionLibraryDefinition(), function_.name())) {
    options.executor_type = kPooledSingleThreadedExecutor;
    if (called_ == Called::kInALoop) {
      options.optimize_graph_fn = LeaveOutIdentities;
    }
  }
  TF_RETURN_IF_ERROR(library->Instantiate(
      function_.name(), tensorflow::AttrSlice(&function_.attr()), options,
      &handle_));
  library_ = library;
  return tensorflow::OkStatus();
}

}  // namespace fedplug
