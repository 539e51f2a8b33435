// Reads or changes sparse entries of every tensor of a list in one launch: what
// error feedback puts back into residuals, what a sparsifier takes out of sums,
// and payloads that are added to a model.
#ifndef FEDPLUG_CUDA_ENTRIES_H_
#define FEDPLUG_CUDA_ENTRIES_H_

#include <cstdint>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// The entries of one tensor.
template <typename T>
struct EntriesOf {
  T* tensor;
  const std::int32_t* indices;  // null: entry i is element i
  std::int64_t first;  // number of the tensor's first entry in the list
};

enum class EntriesWork : std::int32_t {
  kAdd,   // element += value, rounded once
  kRead,  // value = element
  kTake,  // value = element, unless `values` is null; element = 0
};

// Queues the work of all entries; of tensor i, entry j has the element
// indices[j] and the value values[first + j]. T is float, double, Half or
// BFloat16.
//
// REQUIRES: indices lie in their tensor and differ within it, as those of a
//           selection do; lists[i].first ascend from 0; 0 <= entries < 2^31
//           (checked); values is null for kTake only
// SHAPE:    lists[count] and values[entries], in device memory
// THREADS:  the caller's only
// COST:     one launch; reads and writes one element per entry
template <typename T>
Status QueueEntries(EntriesWork work, const EntriesOf<T>* lists,
                    std::int64_t count, T* values, std::int64_t entries,
                    CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_ENTRIES_H_
