// Kernels of TensorFlow's iterators that do their work in the thread that runs
// them, under the label "fedplug_inline". TensorFlow's own hand it to a thread
// of theirs, which then goes on with the rest: a change of threads for
// every batch of a client.
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/kernels/data/iterator_ops.h"

namespace fedplug {
namespace {

template <typename Kernel>
class Inline : public Kernel {
 public:
  using Kernel::Kernel;
  tensorflow::AsyncOpKernel* AsAsync() override { return nullptr; }
};

#define FEDPLUG_REGISTER(op)                                            \
  REGISTER_KERNEL_BUILDER(                                              \
      Name(#op).Device(tensorflow::DEVICE_CPU).Label("fedplug_inline"), \
      Inline<tensorflow::data::op##Op>)
FEDPLUG_REGISTER(MakeIterator);
FEDPLUG_REGISTER(IteratorGetNext);
FEDPLUG_REGISTER(IteratorGetNextAsOptional);
#undef FEDPLUG_REGISTER

}  // namespace
}  // namespace fedplug
