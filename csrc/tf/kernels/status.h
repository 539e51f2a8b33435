// Turns the core's Status into TensorFlow's. Must not know any kernel.
#ifndef FEDPLUG_TF_KERNELS_STATUS_H_
#define FEDPLUG_TF_KERNELS_STATUS_H_

#include "core/base/status.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {

// Every refusal of an input is InvalidArgument: that is what the assertions of
// the plain-TensorFlow references raise, and a caller must not need to know
// which of the two ran. A GPU that does not do its work is nobody's argument.
inline tensorflow::Status ToTensorFlow(const Status& status) {
  if (status.ok()) return tensorflow::OkStatus();
  if (status.code() == StatusCode::kDevice) {
    return tensorflow::errors::Internal(status.message());
  }
  return tensorflow::errors::InvalidArgument(status.message());
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_STATUS_H_
