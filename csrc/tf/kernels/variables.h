// Variables that an op updates in place, as TensorFlow's optimizers do, on any
// device.
#ifndef FEDPLUG_TF_KERNELS_VARIABLES_H_
#define FEDPLUG_TF_KERNELS_VARIABLES_H_

#include <cstddef>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/mutex.h"

namespace fedplug {

// Holds a write lock from Lock() until it is destroyed, so no reader shares a
// buffer that is being written.
class LockedVariables {
 public:
  // The variables that the inputs [first, first + count) are handles of. All
  // ops lock in the same order, so that no two wait for each other.
  //
  // Errors: FailedPrecondition if one has no value yet; InvalidArgument if it
  // has another type, or is listed twice.
  tensorflow::Status Lock(tensorflow::OpKernelContext* context, int first,
                          int count, tensorflow::DataType type);

  // REQUIRES: Lock() was OK; before Commit(), the value before the update
  const tensorflow::Tensor& Value(int i) const {
    return *variables_[static_cast<std::size_t>(i)]->tensor();
  }

  // The buffer of the new value: the variable's own or, if a value read from it
  // is still in use, a new one. Values that were read do not change.
  tensorflow::Status ForwardOrAllocate(tensorflow::OpKernelContext* context,
                                       int i, tensorflow::Tensor** new_value);

  // Assigns the values that are not yet in the variables.
  void Commit();

 private:
  struct Allocated {
    tensorflow::Var* variable;
    tensorflow::Tensor value;
  };

  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;
  std::vector<tensorflow::mutex_lock> locks_;  // released before what they lock
  std::vector<Allocated> allocated_;
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_VARIABLES_H_
