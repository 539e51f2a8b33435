// Queues the kernel that works on entries of the tensors of a list.
#include <cuda_runtime.h>

#include <string>

#include "core/base/floats.h"
#include "cuda/block.h"
#include "cuda/entries.h"
#include "cuda/launch.cuh"

namespace fedplug::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__device__ void WorkOn(EntriesWork work, const Entries& list, std::int64_t j) {
  T* const element = static_cast<T*>(list.tensor) +
                     (list.indices == nullptr ? j : list.indices[j]);
  T* const values = static_cast<T*>(list.values);
  switch (work) {
    case EntriesWork::kAdd:
      *element = *element + values[j];
      return;
    case EntriesWork::kRead:
      values[j] = *element;
      return;
    case EntriesWork::kTake:
      if (values != nullptr) values[j] = *element;
      *element = T{};
      return;
    case EntriesWork::kDivideBy:
      *element = *element / values[0];
      return;
    case EntriesWork::kLargest:
      // Magnitudes are in the order of their bits.
      if (IsFinite(*element)) {
        AtomicMax(static_cast<FloatBitsOf<T>*>(list.values),
                  MagnitudeKey(*element));
      }
      return;
  }
}

// A thread for each entry finds its tensor, the last that begins at or before
// it.
__global__ void __launch_bounds__(kThreads)
    EntriesKernel(EntriesWork work, const Entries* lists, std::int64_t count,
                  std::int64_t entries) {
  const std::int64_t entry =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (entry >= entries) return;
  std::int64_t low = 0;
  std::int64_t high = count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (lists[middle].first <= entry) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const Entries list = lists[low];
  if (list.is_double != 0) {
    WorkOn<double>(work, list, entry - list.first);
  } else {
    WorkOn<float>(work, list, entry - list.first);
  }
}

}  // namespace

Status QueueEntries(EntriesWork work, const Entries* lists, std::int64_t count,
                    std::int64_t entries, cudaStream_t stream) {
  const std::int64_t blocks = (entries + kThreads - 1) / kThreads;
  if (count < 0 || entries < 0 || blocks > INT32_MAX ||
      (entries > 0 && count == 0)) {
    return {StatusCode::kInvalidArgument,
            std::to_string(entries) + " entries of " + std::to_string(count) +
                " tensors; there must be tensors, and fewer than 2^39 entries"};
  }
  if (entries == 0) return {};
  LaunchQueue queue(stream);
  queue.Launch(EntriesKernel, static_cast<unsigned>(blocks), kThreads, work,
               lists, count, entries);
  return queue.status("entries");
}

}  // namespace fedplug::cuda
