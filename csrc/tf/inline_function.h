// A function that a kernel calls in its own thread.
#ifndef FEDPLUG_TF_INLINE_FUNCTION_H_
#define FEDPLUG_TF_INLINE_FUNCTION_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/threadpool_interface.h"

namespace fedplug {

// A pool without threads: the caller runs the work.
class NoThreads : public tensorflow::thread::ThreadPoolInterface {
 public:
  void Schedule(std::function<void()> work) override { work(); }
  int NumThreads() const override { return 1; }
  int CurrentThreadId() const override { return -1; }  // of no pool
};

// How often a call of the kernel calls its function.
enum class Called {
  kOnce,
  kInALoop,  // worth some milliseconds, once, for a shorter graph
};

// Instantiated when it is first called. One whose operations run each once,
// without control flow, gets TensorFlow's executor for such, which keeps no
// account of ready operations: the same operations on the same values.
class InlineFunction {
 public:
  InlineFunction(tensorflow::NameAttrList function, Called called);
  ~InlineFunction();
  InlineFunction(const InlineFunction&) = delete;
  InlineFunction& operator=(const InlineFunction&) = delete;

  // Calls it from the kernel that `context` belongs to.
  //
  // REQUIRES: as many arguments in every call
  // THREADS:  any. `one_thread`: operations do not share their work among
  //           TensorFlow's threads
  tensorflow::Status Run(tensorflow::OpKernelContext* context, bool one_thread,
                         const std::vector<tensorflow::Tensor>& arguments,
                         std::vector<tensorflow::Tensor>* results);

 private:
  tensorflow::Status Instantiate(tensorflow::FunctionLibraryRuntime* library,
                                 std::size_t arguments);

  const tensorflow::NameAttrList function_;
  const Called called_;
  NoThreads no_threads_;
  tensorflow::mutex mutex_;
  tensorflow::FunctionLibraryRuntime* library_ = nullptr;
  tensorflow::FunctionLibraryRuntime::Handle handle_;
};

// Names of executors with the results of TensorFlow's. Tensors on a CPU come
// from the pool of results if TensorFlow would use malloc, which returns large
// blocks to the system: fresh pages cost as much as filling them.
inline constexpr char kPooledExecutor[] = "FEDPLUG_DEFAULT";
inline constexpr char kPooledSingleThreadedExecutor[] =
    "FEDPLUG_SINGLE_THREADED";

}  // namespace fedplug

#endif  // FEDPLUG_TF_INLINE_FUNCTION_H_
