#include "tests/fake_cuda/device.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tests/fake_cuda/fibers.h"

struct CUstream_st {
  std::deque<std::function<void()>> work;
};

namespace fedplug::fake_cuda {
namespace {

// No single allocation is larger.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

struct Failure {
  Operation operation;
  int calls_left;
  cudaError_t error;
};

// The reported limits of a device, and the number of blocks that it really runs
// together.
struct Abilities {
  int multiprocessors;
  int cooperative;
  unsigned room;
  int driver = CUDART_VERSION;
};

constexpr Abilities kAbilities[] = {{kBlocksAtOnce, 1, kBlocksAtOnce},
                                    {kBlocksAtOnce, 0, 0},
                                    {kBlocksAtOnce, 1, kBlocksAtOnce - 1},
                                    {kBlocksAtOnce, 1, kBlocksAtOnce, 12000}};
static_assert(std::size(kAbilities) ==
              static_cast<std::size_t>(FakeDevice::kDevices));

struct Device {
  std::mutex turn;
  int current = 0;
  CUstream_st default_stream;
  std::map<std::uintptr_t, std::size_t> allocations;  // begin, bytes
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<Queued> log;
  std::map<Operation, int> calls;
  std::vector<Failure> failures;
  cudaError_t last_error = cudaSuccess;
};

Device& TheDevice() {
  static Device device;
  return device;
}

// Held by a call that reads or changes the state of calls, so that it may come
// from any thread: a garbage collector frees memory, which waits for the queued
// work, while another thread's kernel runs.
class Turn {
 public:
  Turn() : lock_(TheDevice().turn) {}

 private:
  const std::lock_guard<std::mutex> lock_;
};

const Abilities& Current() { return kAbilities[TheDevice().current]; }

CUstream_st& StreamOf(cudaStream_t stream) {
  return stream == nullptr ? TheDevice().default_stream : *stream;
}

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) TheDevice().last_error = error;
  return error;
}

// The error that a test injects into this call.
cudaError_t Planned(Operation operation) {
  ++TheDevice().calls[operation];
  for (Failure& failure : TheDevice().failures) {
    if (failure.operation == operation && failure.calls_left-- == 0) {
      return failure.error;
    }
  }
  return cudaSuccess;
}

bool IsOnDevice(const void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const auto& allocations = TheDevice().allocations;
  auto found = allocations.upper_bound(begin);
  if (found == allocations.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second;
}

bool IsStream(cudaStream_t stream) {
  if (stream == nullptr) return true;
  for (const auto& each : TheDevice().streams) {
    if (each.get() == stream) return true;
  }
  return false;
}

cudaError_t Queue(Operation operation, cudaStream_t stream,
                  std::function<void()> work) {
  if (const cudaError_t error = Planned(operation); error != cudaSuccess) {
    return Note(error);
  }
  if (!IsStream(stream)) return Note(cudaErrorInvalidResourceHandle);
  TheDevice().log.push_back({operation, stream});
  StreamOf(stream).work.push_back(std::move(work));
  return cudaSuccess;
}

void Drain(CUstream_st* stream) {
  while (!stream->work.empty()) {
    const std::function<void()> work = std::move(stream->work.front());
    stream->work.pop_front();
    work();
  }
}

void DrainAll() {
  Drain(&TheDevice().default_stream);
  for (const auto& stream : TheDevice().streams) Drain(stream.get());
}

}  // namespace

ScopedFailure::ScopedFailure(Operation operation, int at, cudaError_t error) {
  TheDevice().failures.push_back({operation, at, error});
}

ScopedFailure::~ScopedFailure() { TheDevice().failures.pop_back(); }

ScopedDevice::ScopedDevice(FakeDevice device) {
  TheDevice().current = static_cast<int>(device);
}

ScopedDevice::~ScopedDevice() { TheDevice().current = 0; }

std::vector<Queued> TakeLog() { return std::exchange(TheDevice().log, {}); }

int fedplug_fake_cuda_calls(Operation operation) {
  const Turn turn;
  return TheDevice().calls[operation];
}

void fedplug_fake_cuda_fail(Operation operation, int at, int error) {
  TheDevice().failures.clear();
  if (at < 0) return;
  TheDevice().failures.push_back(
      {operation, at, static_cast<cudaError_t>(error)});
}

std::size_t Waiting(cudaStream_t stream) {
  return StreamOf(stream).work.size();
}

cudaError_t QueueLaunch(const cudaLaunchConfig_t& config,
                        std::function<void()> thread_body) {
  const Turn turn;
  const unsigned blocks = config.gridDim.x;
  const unsigned threads = config.blockDim.x;
  if (blocks == 0 || threads == 0 || threads > 1024) {
    return Note(cudaErrorInvalidConfiguration);
  }
  const std::size_t shared_bytes = config.dynamicSmemBytes;
  if (shared_bytes > kMostSharedBytes) return Note(cudaErrorInvalidValue);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeCooperative &&
        config.attrs[i].val.cooperative != 0 && blocks > Current().room) {
      return Note(cudaErrorCooperativeLaunchTooLarge);
    }
  }
  return Queue(Operation::kLaunch, config.stream,
               [=, body = std::move(thread_body)] {
                 RunGrid(blocks, threads, shared_bytes, body);
               });
}

}  // namespace fedplug::fake_cuda

using fedplug::fake_cuda::Operation;
using fedplug::fake_cuda::TheDevice;
using fedplug::fake_cuda::Turn;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorCooperativeLaunchTooLarge:
      return "cudaErrorCooperativeLaunchTooLarge";
  }
  return "unknown";
}

const char* cudaGetErrorString(cudaError_t) { return "on the fake device"; }

cudaError_t cudaGetLastError() {
  const Turn turn;
  return std::exchange(TheDevice().last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Turn turn;
  *count = 1;
  return fedplug::fake_cuda::Note(
      fedplug::fake_cuda::Planned(Operation::kCountDevices));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::snprintf(properties->name, sizeof(properties->name), "fibers");
  properties->major = 9;
  properties->minor = 0;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fedplug::fake_cuda::Current().driver;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = TheDevice().current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 ||
      device >= static_cast<int>(fedplug::fake_cuda::FakeDevice::kDevices)) {
    return fedplug::fake_cuda::Note(cudaErrorInvalidDevice);
  }
  TheDevice().current = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  const auto& abilities = fedplug::fake_cuda::kAbilities[device];
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = abilities.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch:
      *value = abilities.cooperative;
      return cudaSuccess;
  }
  return fedplug::fake_cuda::Note(cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void*, int, std::size_t shared_bytes) {
  const Turn turn;
  *blocks = shared_bytes <= fedplug::fake_cuda::kMostSharedBytes ? 1 : 0;
  return fedplug::fake_cuda::Note(
      fedplug::fake_cuda::Planned(Operation::kAskForRoom));
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Turn turn;
  if (const cudaError_t error =
          fedplug::fake_cuda::Planned(Operation::kAllocate);
      error != cudaSuccess) {
    return fedplug::fake_cuda::Note(error);
  }
  if (bytes > fedplug::fake_cuda::kMostBytes) {
    return fedplug::fake_cuda::Note(cudaErrorMemoryAllocation);
  }
  *memory = ::operator new(bytes, std::align_val_t{256});
  TheDevice().allocations[reinterpret_cast<std::uintptr_t>(*memory)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const Turn turn;
  fedplug::fake_cuda::DrainAll();  // CUDA waits too
  TheDevice().allocations.erase(reinterpret_cast<std::uintptr_t>(memory));
  ::operator delete(memory, std::align_val_t{256});
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  return cudaFree(memory);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = ::operator new(bytes, std::align_val_t{256});
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  ::operator delete(memory, std::align_val_t{256});
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                            cudaStream_t stream) {
  const Turn turn;
  if (!fedplug::fake_cuda::IsOnDevice(memory, bytes)) {
    return fedplug::fake_cuda::Note(cudaErrorInvalidValue);
  }
  return fedplug::fake_cuda::Queue(Operation::kSet, stream,
                                   [=] { std::memset(memory, value, bytes); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  const Turn turn;
  using fedplug::fake_cuda::IsOnDevice;
  if ((kind != cudaMemcpyHostToDevice && !IsOnDevice(from, bytes)) ||
      (kind != cudaMemcpyDeviceToHost && !IsOnDevice(to, bytes))) {
    return fedplug::fake_cuda::Note(cudaErrorInvalidValue);
  }
  return fedplug::fake_cuda::Queue(Operation::kCopy, stream,
                                   [=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  const cudaError_t error = cudaMemsetAsync(memory, value, bytes, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                       cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const Turn turn;
  TheDevice().streams.push_back(std::make_unique<CUstream_st>());
  *stream = TheDevice().streams.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Turn turn;
  fedplug::fake_cuda::Drain(stream);
  auto& streams = TheDevice().streams;
  for (auto each = streams.begin(); each != streams.end(); ++each) {
    if (each->get() == stream) {
      streams.erase(each);
      break;
    }
  }
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Turn turn;
  fedplug::fake_cuda::Drain(&fedplug::fake_cuda::StreamOf(stream));
  return fedplug::fake_cuda::Note(
      fedplug::fake_cuda::Planned(Operation::kSynchronize));
}

cudaError_t cudaDeviceSynchronize() {
  const Turn turn;
  fedplug::fake_cuda::DrainAll();
  return cudaSuccess;
}
