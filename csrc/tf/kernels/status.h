// Converts the core's Status to TensorFlow's.
#ifndef FEDPLUG_TF_KERNELS_STATUS_H_
#define FEDPLUG_TF_KERNELS_STATUS_H_

#include "core/base/status.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {

// Every refusal of an input is InvalidArgument, as the assertions of the
// references in TensorFlow raise, so that a caller sees one error. Device
// failures are Internal errors.
inline tensorflow::Status ToTensorFlow(const Status& status) {
  if (status.ok()) return tensorflow::OkStatus();
  if (status.code() == StatusCode::kDevice) {
    return tensorflow::errors::Internal(status.message());
  }
  return tensorflow::errors::InvalidArgument(status.message());
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_STATUS_H_
