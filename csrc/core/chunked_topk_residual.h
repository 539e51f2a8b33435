// Exact top-k within chunks, fused with error feedback whose residual decays.
// Arithmetic, order and ties are those of topk_residual.h.
#ifndef FEDPLUG_CORE_CHUNKED_TOPK_RESIDUAL_H_
#define FEDPLUG_CORE_CHUNKED_TOPK_RESIDUAL_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// Refuses n outside [0, 2^31), a negative k and a chunk of less than 1.
Status CheckChunks(std::int64_t n, std::int64_t k, std::int64_t chunk);

// How many entries leave: min(k, chunk) of each chunk, of a last one that is
// shorter min(k, its length).
//
// REQUIRES: CheckChunks is ok
std::int64_t ChunkedEntries(std::int64_t n, std::int64_t k, std::int64_t chunk);

// a = delta + decay * residual_in, product and sum each rounded once. Of every
// `chunk` neighbours in it the k with the largest |a| leave, ties to the lower
// index; the rest stays in residual_out, with +0 where they were. A sum that is
// NaN or infinite is refused (kNonFinite, and *non_finite is their number); in
// place, everything is then as it was; elsewhere, residual_out holds anything.
// residual_in may be null, which is as zeros and one read less.
//
// REQUIRES: CheckChunks is ok, 0 <= decay <= 1 (both checked); residual_in ==
//           residual_out (in place) or the two do not overlap; delta does not
//           overlap residual_out. T is float or double.
// SHAPE:    delta[n], residual_in[n], residual_out[n],
//           values[ChunkedEntries], indices[ChunkedEntries], which ascend
// THREADS:  uses `parallel` from 2^18 elements on, a chunk to a thread; the
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
