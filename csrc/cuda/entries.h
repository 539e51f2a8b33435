// Reads or changes sparse entries of every tensor of a list in one launch:
// errors go back into residuals, a sparsifier takes entries out of sums,
// and payloads that are added to a model. So a list is changed whole, or not at
// all if the device refuses the launch.
#ifndef FEDPLUG_CUDA_ENTRIES_H_
#define FEDPLUG_CUDA_ENTRIES_H_

#include <cstdint>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// The entries of one tensor, in device memory.
struct Entries {
  void* tensor;
  const std::int32_t* indices;  // null: entry i is element i
  void* values;
  std::int64_t first;      // number of its first entry, of all of the list
  std::int64_t is_double;  // 1: tensor and values are of double; 0: of float
};

enum class EntriesWork : std::int32_t {
  kAdd,       // element += value, rounded once
  kRead,      // value = element
  kTake,      // value = element, unless `values` is null; element = 0
  kDivideBy,  // element /= values[0], rounded once
  kLargest,   // values[0] = max(values[0], |element|) if the element is finite
};

// Queues the work of all entries: that of number j of a tensor is on the
// element indices[j] and the value values[j].
//
// REQUIRES: indices lie in their tensor and differ within it, as those of a
//           selection do, lists[i].first ascend from 0, 0 <= entries < 2^39
//           (checked), values is null for kTake only
// SHAPE:    lists[count], in device memory
// THREADS:  the caller's only
// COST:     one launch. Reads and writes one element per entry
Status QueueEntries(EntriesWork work, const Entries* lists, std::int64_t count,
                    std::int64_t entries, CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_ENTRIES_H_
