// Exact top-k within chunks, fused with error feedback with a decaying
// residual, on a GPU. Its bits are those of core/chunked_topk_residual.h. All
// work is queued on a stream. Nothing is allocated and nothing waits for the
// GPU.
#ifndef FEDPLUG_CUDA_CHUNKED_TOPK_RESIDUAL_H_
#define FEDPLUG_CUDA_CHUNKED_TOPK_RESIDUAL_H_

#include <cstdint>

#include "core/base/status.h"
#include "cuda/scaled_sum.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// Queues the selection of the k largest sums of every chunk of `chunk`
// elements, or of all sums of a shorter last one. call.sum keeps the others,
// with +0 in their places. If non_finite counts any, no result means anything.
//
// REQUIRES: call is as for QueueScaledSum, with a sum that is not the residual;
//           core's CheckChunks is ok (checked)
// SHAPE:    values and indices[core's ChunkedEntries], which ascend;
//           non_finite[1]
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     one launch, a block for each chunk. Reads delta and residual and
//           writes the sum, then reads each chunk once more for every 11 bits
//           of a key and once to take entries out, from the first-level cache
//           if it fits there. Chunks below 2,000 elements cost as much as those
//           of 2,000.
template <typename T>
Status QueueChunkedTopK(const ScaledSum<T>& call, std::int64_t k,
                        std::int64_t chunk, T* values, std::int32_t* indices,
                        NonFiniteCount* non_finite, CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_CHUNKED_TOPK_RESIDUAL_H_
