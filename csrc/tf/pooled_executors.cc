// TensorFlow's executors, with the memory of outputs.h.
#include <memory>
#include <string>
#include <utility>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/platform/env.h"
#include "tf/inline_function.h"
#include "tf/outputs.h"

namespace fedplug {
namespace {

using tensorflow::Allocator;
using tensorflow::AllocatorAttributes;
using tensorflow::AsyncOpKernel;
using tensorflow::Device;
using tensorflow::DeviceBase;
using tensorflow::DeviceContext;
using tensorflow::Executor;
using tensorflow::LocalExecutorParams;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;

// A CPU, but for its memory.
class PooledDevice final : public Device {
 public:
  explicit PooledDevice(Device* cpu)
      : Device(tensorflow::Env::Default(), cpu->attributes()), cpu_(cpu) {}

  Allocator* GetAllocator(AllocatorAttributes) override {
    return ThePooledAllocator();
  }

  const DeviceBase* UnderlyingDevice() const override {
    return cpu_->UnderlyingDevice();
  }
  DeviceBase* UnderlyingDevice() override { return cpu_->UnderlyingDevice(); }
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return cpu_->tensorflow_cpu_worker_threads();
  }
  tensorflow::thread::ThreadPool* tensorflow_device_thread_pool() override {
    return cpu_->tensorflow_device_thread_pool();
  }
  bool has_eigen_cpu_device() const override {
    return cpu_->has_eigen_cpu_device();
  }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override {
    return cpu_->eigen_cpu_device();
  }
  Allocator* GetScopedAllocator(AllocatorAttributes attributes,
                                tensorflow::int64 step) override {
    return cpu_->GetScopedAllocator(attributes, step);
  }
  tensorflow::ScopedAllocatorMgr* GetScopedAllocatorMgr() const override {
    return cpu_->GetScopedAllocatorMgr();
  }
  Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                             AllocatorAttributes attributes,
                             Tensor* tensor) override {
    return cpu_->MakeTensorFromProto(proto, attributes, tensor);
  }
  void CopyTensorInSameDevice(const Tensor* from, Tensor* to,
                              const DeviceContext* context,
                              tensorflow::StatusCallback done) override {
    cpu_->CopyTensorInSameDevice(from, to, context, std::move(done));
  }
  void Compute(OpKernel* kernel, OpKernelContext* context) override {
    cpu_->Compute(kernel, context);
  }
  void ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* context,
                    AsyncOpKernel::DoneCallback done) override {
    cpu_->ComputeAsync(kernel, context, std::move(done));
  }
  Status Sync() override { return cpu_->Sync(); }
  Status TryGetDeviceContext(DeviceContext** context) override {
    return cpu_->TryGetDeviceContext(context);
  }
  tensorflow::ResourceMgr* resource_manager() override {
    return cpu_->resource_manager();
  }
  bool IsLocal() const override { return cpu_->IsLocal(); }
  bool IsRemoteCallAllowed() const override {
    return cpu_->IsRemoteCallAllowed();
  }

 private:
  Device* const cpu_;
};

// An executor, and the device that it refers to.
class PooledExecutor final : public Executor {
 public:
  PooledExecutor(std::unique_ptr<Device> device,
                 std::unique_ptr<Executor> executor)
      : device_(std::move(device)), executor_(std::move(executor)) {}

  // TensorFlow 2.14 and newer versions declare one of the first two each.
  void RunAsync(const Args& args, DoneCallback done) {
    executor_->RunAsync(args, std::move(done));
  }
  void RunAsyncInternal(const Args& args, DoneCallback done) {
    executor_->RunAsync(args, std::move(done));
  }
  Status Run(const Args& args) { return executor_->Run(args); }

 private:
  const std::unique_ptr<Device> device_;  // gone after the executor
  const std::unique_ptr<Executor> executor_;
};

class PooledExecutorFactory final : public tensorflow::ExecutorFactory {
 public:
  PooledExecutorFactory(const char* name, const char* like) : like_(like) {
    Register(name, this);
  }

  Status NewExecutor(const LocalExecutorParams& params,
                     const tensorflow::Graph& graph,
                     std::unique_ptr<Executor>* result) override {
    if (params.device->device_type() != tensorflow::DEVICE_CPU ||
        !AsksMalloc(params.device->GetAllocator({}))) {
      return tensorflow::NewExecutor(like_, params, graph, result);
    }
    auto device = std::make_unique<PooledDevice>(params.device);
    LocalExecutorParams pooled = params;
    pooled.device = device.get();
    std::unique_ptr<Executor> executor;
    TF_RETURN_IF_ERROR(
        tensorflow::NewExecutor(like_, pooled, graph, &executor));
    *result = std::make_unique<PooledExecutor>(std::move(device),
                                               std::move(executor));
    return tensorflow::OkStatus();
  }

 private:
  const std::string like_;
};

// Never destroyed: TensorFlow's list of factories has them.
[[maybe_unused]] const PooledExecutorFactory* const kFactories[] = {
    new PooledExecutorFactory(kPooledExecutor, "DEFAULT"),
    new PooledExecutorFactory(kPooledSingleThreadedExecutor,
                              "SINGLE_THREADED_EXECUTOR"),
};

}  // namespace
}  // namespace fedplug
