// The reports of a selection on a GPU, in one block of memory with the row
// splits that the host needs, so that one copy and one wait fetch all of it.
#ifndef FEDPLUG_TF_KERNELS_TOPK_REPORTS_GPU_H_
#define FEDPLUG_TF_KERNELS_TOPK_REPORTS_GPU_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/copy.h"
#include "cuda/topk_residual.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernels/gpu.h"
#include "tf/kernels/status.h"

namespace fedplug {

class TopKReports {
 public:
  // For `tensors` tensors, with their row splits or without.
  tensorflow::Status Allocate(tensorflow::OpKernelContext* context,
                              std::size_t tensors, bool with_row_splits) {
    tensors_ = tensors;
    splits_ = with_row_splits ? tensors + 1 : 0;
    const std::size_t bytes =
        tensors * sizeof(cuda::TopKReport) + splits_ * sizeof(std::int64_t);
    TF_RETURN_IF_ERROR(on_device_.Allocate(context, bytes));
    return on_host_.AllocatePinned(context, bytes);
  }

  cuda::TopKReport* reports() { return on_device_.As<cuda::TopKReport>(); }
  std::int64_t* row_splits() { return SplitsOf(&on_device_); }

  // Waits for the device: the op may have to fail, and the host adds up the
  // dropped sums.
  //
  // SHAPE: updates[tensors], row_splits[tensors + 1] or null
  template <typename Update>
  tensorflow::Status Fetch(const std::vector<Update>& updates,
                           NonFinitePolicy policy, std::int64_t* row_splits,
                           std::int64_t* dropped, CUstream_st* stream) {
    TF_RETURN_IF_ERROR(
        ToTensorFlow(cuda::Fetch(on_host_.As<void>(), on_device_.As<void>(),
                                 on_device_.bytes(), stream)));
    const auto* const first = on_host_.As<cuda::TopKReport>();
    const std::vector<cuda::TopKReport> found(first, first + tensors_);
    std::vector<std::int64_t> sizes;
    for (const Update& update : updates) sizes.push_back(update.n);
    *dropped = 0;
    for (const cuda::TopKReport& report : found) *dropped += report.non_finite;
    if (row_splits != nullptr) {
      std::copy_n(SplitsOf(&on_host_), splits_, row_splits);
    }
    return ToTensorFlow(cuda::ToStatus(found, sizes, policy));
  }

 private:
  std::int64_t* SplitsOf(Scratch* scratch) const {
    return reinterpret_cast<std::int64_t*>(scratch->As<cuda::TopKReport>() +
                                           tensors_);
  }

  std::size_t tensors_ = 0;
  std::size_t splits_ = 0;
  Scratch on_device_;
  Scratch on_host_;
};

}  // namespace fedplug

#endif  // FEDPLUG_TF_KERNELS_TOPK_REPORTS_GPU_H_
