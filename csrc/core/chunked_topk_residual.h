// Exact top-k within chunks, fused with error feedback with a decaying
// residual. Arithmetic, order and ties as in topk_residual.h.
#ifndef FEDPLUG_CORE_CHUNKED_TOPK_RESIDUAL_H_
#define FEDPLUG_CORE_CHUNKED_TOPK_RESIDUAL_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// Refuses n outside [0, 2^31), a negative k and a chunk of less than 1.
Status CheckChunks(std::int64_t n, std::int64_t k, std::int64_t chunk);

// The number of selected entries: min(k, length) of each chunk.
//
// REQUIRES: CheckChunks is ok
std::int64_t ChunkedEntries(std::int64_t n, std::int64_t k, std::int64_t chunk);

// a = delta + decay * residual_in, product and sum each rounded once. Selects
// the k entries with the largest |a| from each chunk of `chunk` elements, ties
// to the lower index. residual_out is a with +0 in their places. Sums that are
// NaN or infinite are refused (kNonFinite, with their number in *non_finite).
// After a refusal nothing has changed in place. Elsewhere residual_out is
// unspecified. residual_in may be null, which stands for zeros and saves one
// read.
//
// REQUIRES: CheckChunks is ok, 0 <= decay <= 1 (both checked); residual_in ==
//           residual_out (in place) or the two do not overlap; delta does not
//           overlap residual_out. T is float or double.
// SHAPE:    delta[n], residual_in[n], residual_out[n],
//           values[ChunkedEntries], indices[ChunkedEntries], which ascend
// THREADS:  uses `parallel` from 2^18 elements on, a chunk to a thread. The
//           result depends neither on the number of threads nor on the SIMD
//           level
// COST:     one pass, reads 2 * sizeof(T) bytes per element and writes
//           sizeof(T); in place, reads everything once more. Written for chunks
//           that fit the first-level cache. Scratch memory of some chunks is
//           kept for the next call.
template <typename T>
Status ChunkedTopKResidual(const T* delta, const T* residual_in,
                           T* residual_out, std::int64_t n, std::int64_t k,
                           std::int64_t chunk, T decay, Parallel& parallel,
                           T* values, std::int32_t* indices,
                           std::int64_t* non_finite);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CHUNKED_TOPK_RESIDUAL_H_
