// Adds sparse entries to every tensor of a list in one launch: error feedback
// puts what quantization lost back into the residuals.
#ifndef FEDPLUG_CUDA_ADD_ENTRIES_H_
#define FEDPLUG_CUDA_ADD_ENTRIES_H_

#include <cstdint>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// The entries of one tensor.
template <typename T>
struct EntriesOf {
  T* sum;
  const std::int32_t* indices;
  std::int64_t first;  // number of the tensor's first entry in the list
};

// Queues `sum[indices[i]] += values[first + i]` for all entries of the list.
// T is float or double.
//
// REQUIRES: indices lie in their tensor and differ within it, as those of a
//           selection do; lists[i].first ascend from 0; 0 <= entries < 2^31
//           (checked)
// SHAPE:    lists[count] and values[entries], in device memory
// THREADS:  the caller's only
// COST:     one launch; reads and writes one element per entry
template <typename T>
Status AddEntries(const EntriesOf<T>* lists, std::int64_t count,
                  const T* values, std::int64_t entries, CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_ADD_ENTRIES_H_
