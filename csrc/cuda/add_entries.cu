// Queues the kernel that adds entries to the tensors of a list.
#include <cuda_runtime.h>

#include <string>

#include "cuda/add_entries.h"
#include "cuda/launch.cuh"

namespace fedplug::cuda {
namespace {

constexpr int kThreads = 256;

// A thread for each entry finds its tensor, the last that begins at or before
// it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    AddEntriesKernel(const EntriesOf<T>* lists, std::int64_t count,
                     const T* values, std::int64_t entries) {
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
  const EntriesOf<T> list = lists[low];
  T* const sum = list.sum + list.indices[entry - list.first];
  *sum = *sum + values[entry];
}

}  // namespace

template <typename T>
Status AddEntries(const EntriesOf<T>* lists, std::int64_t count,
                  const T* values, std::int64_t entries, cudaStream_t stream) {
  if (count < 0 || entries < 0 || entries > INT32_MAX ||
      (entries > 0 && count == 0)) {
    return {StatusCode::kInvalidArgument,
            std::to_string(entries) + " entries of " + std::to_string(count) +
                " tensors; there must be tensors, and fewer than 2^31 entries"};
  }
  if (entries == 0) return {};
  LaunchQueue queue(stream);
  queue.Launch(AddEntriesKernel<T>,
               static_cast<unsigned>((entries + kThreads - 1) / kThreads),
               kThreads, lists, count, values, entries);
  return queue.status("add_entries");
}

template Status AddEntries<float>(const EntriesOf<float>*, std::int64_t,
                                  const float*, std::int64_t, cudaStream_t);
template Status AddEntries<double>(const EntriesOf<double>*, std::int64_t,
                                   const double*, std::int64_t, cudaStream_t);

}  // namespace fedplug::cuda
