// Lends TensorFlow's intra-op threads to the core.
#ifndef FEDPLUG_TF_PARALLEL_H_
#define FEDPLUG_TF_PARALLEL_H_

#include <functional>
#include <memory>

#include "core/base/parallel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace fedplug {

// The intra-op pool of the device an op runs on. Its threads flush denormals to
// zero. The core sets the floating-point environment it needs in its tasks.
class IntraOpPool final : public Parallel {
 public:
  explicit IntraOpPool(tensorflow::OpKernelContext* context);

  // THREADS: the caller's and the pool's. The caller takes part and can finish
  //          alone, so a pool whose threads are all busy, or all waiting in
  //          here themselves, delays nothing and blocks nothing.
  void Run(int count, const std::function<void(int)>& task) override;
  int MaxThreads() const override { return max_threads_; }

 protected:
  void BeginAwake(int helpers) override;
  void EndAwake() override;

 private:
  struct Team;

  tensorflow::thread::ThreadPool* const pool_;
  const int max_threads_;
  const std::shared_ptr<Team> team_;
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_PARALLEL_H_
