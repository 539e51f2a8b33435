// Queues the kernel that works on entries of the tensors of a list.
#include <cuda_runtime.h>

#include <string>

#include "core/base/float16.h"
#include "cuda/entries.h"
#include "cuda/launch.cuh"

namespace fedplug::cuda {
namespace {

constexpr int kThreads = 256;

// A thread for each entry finds its tensor, the last that begins at or before
// it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    EntriesKernel(EntriesWork work, const EntriesOf<T>* lists,
                  std::int64_t count, T* values, std::int64_t entries) {
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
  const std::int64_t of_list = entry - list.first;
  T* const element =
      list.tensor + (list.indices == nullptr ? of_list : list.indices[of_list]);
  if (work == EntriesWork::kAdd) {
    *element = *element + values[entry];
    return;
  }
  if (values != nullptr) values[entry] = *element;
  if (work == EntriesWork::kTake) *element = T{};
}

}  // namespace

template <typename T>
Status QueueEntries(EntriesWork work, const EntriesOf<T>* lists,
                    std::int64_t count, T* values, std::int64_t entries,
                    cudaStream_t stream) {
  if (count < 0 || entries < 0 || entries > INT32_MAX ||
      (entries > 0 && count == 0)) {
    return {StatusCode::kInvalidArgument,
            std::to_string(entries) + " entries of " + std::to_string(count) +
                " tensors; there must be tensors, and fewer than 2^31 entries"};
  }
  if (entries == 0) return {};
  LaunchQueue queue(stream);
  queue.Launch(EntriesKernel<T>,
               static_cast<unsigned>((entries + kThreads - 1) / kThreads),
               kThreads, work, lists, count, values, entries);
  return queue.status("entries");
}

#define FEDPLUG_INSTANTIATE(T)                                      \
  template Status QueueEntries<T>(EntriesWork, const EntriesOf<T>*, \
                                  std::int64_t, T*, std::int64_t,   \
                                  cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
