// Adds sparse payloads into one dense accumulator, or makes their dense sum, on
// a GPU. Results equal core/scatter_decode.h bit for bit. All work is queued on
// a stream. Nothing is allocated and nothing waits for the GPU.
#ifndef FEDPLUG_CUDA_SCATTER_DECODE_H_
#define FEDPLUG_CUDA_SCATTER_DECODE_H_

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// The kinds of invalid payloads, and the numbers of their messages.
enum class ScatterFlaw : std::int64_t {
  kNone,
  kSplitsBegin,   // row_splits begins with `found`
  kSplitsFall,    // at `payload`, row_splits falls from `before` to `found`
  kSplitsEnd,     // row_splits ends with `found`, not `limit`
  kOutOfRange,    // index `found` is not in [0, limit)
  kNotAscending,  // index `found` is not above `before`
};

// The first error in the order of the payloads.
struct ScatterReport {
  ScatterFlaw flaw;
  std::int64_t payload;
  std::int64_t position;  // in the payload
  std::int64_t size;      // of the payload
  std::int64_t found;
  std::int64_t before;
  std::int64_t limit;
};

// The workspace of both: 256 bytes for every call
std::size_t ScatterDecodeWorkspaceBytes();

// Queues the checks, and the additions, which run only if all checks pass: the
// core's contract on device memory. The report says whether it was refused.
// Wait for the stream before reading it.
//
// REQUIRES: as in the core. `workspace` (aligned to 256 bytes) and
//           `report` (to 8) are device memory and stay until the stream is
//           through. n, entries or payloads out of range are kInvalidArgument,
//           a launch that fails is kDevice. T is float, double, Half or
//           BFloat16.
// SHAPE:    accumulator[n], values[entries], indices[entries],
//           row_splits[payloads + 1], weights[payloads] or null,
//           workspace[ScatterDecodeWorkspaceBytes()], report[1]
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     see scatter_decode_steps.h
template <typename T>
Status ScatterDecodeAdd(T* accumulator, std::int64_t n, const T* values,
                        const std::int32_t* indices, std::int64_t entries,
                        const std::int64_t* row_splits, std::int64_t payloads,
                        const T* weights, void* workspace,
                        std::size_t workspace_bytes, ScatterReport* report,
                        CUstream_st* stream);

// Queues the core's ScatterDecode: the same, added to zeros. If a payload is
// refused, `sum` is unspecified.
//
// REQUIRES: as ScatterDecodeAdd
// SHAPE:    sum[n], the others as for ScatterDecodeAdd
// THREADS:  as ScatterDecodeAdd
// COST:     as ScatterDecodeAdd, and writes each element once more
template <typename T>
Status ScatterDecode(T* sum, std::int64_t n, const T* values,
                     const std::int32_t* indices, std::int64_t entries,
                     const std::int64_t* row_splits, std::int64_t payloads,
                     const T* weights, void* workspace,
                     std::size_t workspace_bytes, ScatterReport* report,
                     CUstream_st* stream);

// The Status the core would have returned.
Status ToStatus(const ScatterReport& report);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_SCATTER_DECODE_H_
