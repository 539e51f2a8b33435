// The fake device, as a test sees it: how it is made to fail, and what has been
// asked of it.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_DEVICE_H_
#define FEDPLUG_TESTS_FAKE_CUDA_DEVICE_H_

#include <cstddef>
#include <vector>

#include "cuda_runtime_api.h"

namespace fedplug::fake_cuda {

enum class Operation { kSet, kCopy, kLaunch, kSynchronize };

// While it lives, the `at`th call of this operation, counted from 0, returns
// `error`, and does nothing.
class ScopedFailure {
 public:
  ScopedFailure(Operation operation, int at, cudaError_t error);
  ~ScopedFailure();
  ScopedFailure(const ScopedFailure&) = delete;
  ScopedFailure& operator=(const ScopedFailure&) = delete;
};

// What was queued on a stream since the last call, in order, whether it has run
// or not.
struct Queued {
  Operation operation;
  cudaStream_t stream;
};
std::vector<Queued> TakeLog();

// Work that was queued and has not run. Nothing runs before somebody waits for
// it.
std::size_t Waiting(cudaStream_t stream);

}  // namespace fedplug::fake_cuda

#endif  // FEDPLUG_TESTS_FAKE_CUDA_DEVICE_H_
