// Exact top-k sparsification fused with the error-feedback update, on a GPU,
// for one tensor or a list of them, with a k for each or one k for all, with
// the bits of core/topk_residual.h. All work is queued on a stream. Nothing
// is allocated and nothing waits for the GPU.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/topk_residual.h"
#include "cuda/scaled_sum.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// One tensor of a call. The pointers are to device memory.
//
// REQUIRES: 0 <= n < 2^31, k >= 0, residual_in == residual_out (in place) or
//           the two do not overlap, nothing else overlaps the outputs
// SHAPE:    delta[n], residual_in[n], residual_out[n], values[min(k, n)],
//           indices[min(k, n)]
template <typename T>
struct TopKTensor {
  const T* delta;
  const T* residual_in;
  T* residual_out;
  std::int64_t n;
  std::int64_t k;
  T* values;
  std::int32_t* indices;
};

// The sums of one tensor that are not finite.
struct TopKReport {
  std::int64_t non_finite;        // sums that are NaN or infinite
  std::int64_t first_non_finite;  // the index of the first, or -1
};

// REQUIRES: the n of the tensors are valid, the pointers are not looked at
// COST:     2 bytes per element and up to 34 KiB per tensor. For a single one 4
//           bytes per element
template <typename T>
std::size_t TopKResidualWorkspaceBytes(const TopKTensor<T>* tensors,
                                       std::int64_t count);

// Queues the selection of every tensor: k entries of each, as the core does.
//
// The list is one update: a NaN or infinite sum anywhere in it leaves every
// residual_out exactly as its residual_in, and `values` and `indices` without
// meaning. The caller learns it from the reports, once it has waited for the
// stream.
//
// REQUIRES: `tensors` is host memory and may be reused after the call,
//           `workspace` and `reports` are device memory, aligned to 256 bytes
//           and 8 bytes, and stay until the stream is through. Sizes out of
//           range are kInvalidArgument, a launch that fails is kDevice. T is
//           float or double.
// SHAPE:    tensors[count], workspace[workspace_bytes], reports[count]
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     see topk/banded.h
template <typename T>
Status TopKResidual(const TopKTensor<T>* tensors, std::int64_t count,
                    void* workspace, std::size_t workspace_bytes,
                    TopKReport* reports, CUstream_st* stream);

// REQUIRES: the n of the tensors are valid, the pointers are not looked at
// COST:     4 bytes per element, 200 bytes per tensor, and up to 33 KiB
template <typename T>
std::size_t GroupedTopKResidualWorkspaceBytes(const TensorUpdate<T>* tensors,
                                              std::int64_t count);

// Queues one selection from all tensors together, as if they lay one behind the
// other: the core's GroupedTopKResidual. values, indices and row_splits, in
// device memory, are without meaning where a sum is refused.
//
// REQUIRES: as TopKResidual, together the tensors have fewer than 2^31 elements
// SHAPE:    tensors[count], values and indices[min(k, sum of n)],
//           row_splits[count + 1], workspace[workspace_bytes], reports[count]
// THREADS:  as TopKResidual
// COST:     as TopKResidual
template <typename T>
Status GroupedTopKResidual(const TensorUpdate<T>* tensors, std::int64_t count,
                           std::int64_t k, void* workspace,
                           std::size_t workspace_bytes, T* values,
                           std::int32_t* indices, std::int64_t* row_splits,
                           TopKReport* reports, CUstream_st* stream);

// The Status the core would have returned: it names the first tensor of a list
// that it refuses.
//
// SHAPE: reports[tensors], sizes[tensors]: n of each
Status ToStatus(const std::vector<TopKReport>& reports,
                const std::vector<std::int64_t>& sizes);

// Exact top-k within chunks, fused with error feedback with a decaying
// residual, on a GPU. Its bits are those of core/chunked_topk_residual.h. All
// work is queued on a stream. Nothing is allocated and nothing waits for the
// GPU.

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

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_H_
