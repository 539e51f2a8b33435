// The test's interface to the fake device: injected failures, and a log of
// calls.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_DEVICE_H_
#define FEDPLUG_TESTS_FAKE_CUDA_DEVICE_H_

#include <cstddef>
#include <vector>

#include "cuda_runtime_api.h"

namespace fedplug::fake_cuda {

enum class Operation {
  kSet,
  kCopy,
  kLaunch,
  kSynchronize,
  kAskForRoom,
  kAllocate,
  kCountDevices
};

// For its lifetime, call number `at` of this operation, counted from 0, returns
// `error` and does nothing.
class ScopedFailure {
 public:
  ScopedFailure(Operation operation, int at, cudaError_t error);
  ~ScopedFailure();
  ScopedFailure(const ScopedFailure&) = delete;
  ScopedFailure& operator=(const ScopedFailure&) = delete;
};

// The fake devices, which differ in their abilities.
enum class FakeDevice {
  kFibers,          // the one that is there at first
  kNotCooperative,  // its blocks may not wait for each other
  kInUse,           // has no room for all of the blocks that it says it has
  kOldDriver,       // takes only 4 KB of arguments
  kDevices
};

// Sets the current device for its lifetime.
class ScopedDevice {
 public:
  explicit ScopedDevice(FakeDevice device);
  ~ScopedDevice();
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;
};

// The operations queued on a stream since the last call, in order, also those
// that have not run.
struct Queued {
  Operation operation;
  cudaStream_t stream;
};
std::vector<Queued> TakeLog();

// Calls of this operation since the process began, for tests in other
// languages.
extern "C" __attribute__((visibility("default"))) int fedplug_fake_cuda_calls(
    Operation operation);

// As ScopedFailure, until the next call. `at` below 0 ends it.
extern "C" __attribute__((visibility("default"))) void fedplug_fake_cuda_fail(
    Operation operation, int at, int error);

// Work that was queued and has not run. Work runs only when something waits for
// it.
std::size_t Waiting(cudaStream_t stream);

}  // namespace fedplug::fake_cuda

#endif  // FEDPLUG_TESTS_FAKE_CUDA_DEVICE_H_
