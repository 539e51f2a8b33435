// The sum of an update and its scaled residual, on a GPU, and the entries of it
// that reach a threshold. Bit for bit what the core gives: product and sum are
// each rounded once. All work is queued on a stream; nothing is allocated and
// nothing waits for the GPU.
#ifndef FEDPLUG_CUDA_SCALED_SUM_H_
#define FEDPLUG_CUDA_SCALED_SUM_H_

#include <cstdint>

#include "core/base/status.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// The elements of an array that are NaN or infinite.
struct NonFiniteCount {
  std::uint32_t count;
  std::uint32_t first_from_end;  // n - the index of the first; 0 for none
};

// sum = delta + factor * residual
//
// REQUIRES: 0 <= n < 2^31 (checked); sum is delta or residual, or overlaps
//           neither. T is float or double
// SHAPE:    delta[n], null: sum = factor * residual; residual[n], null: zeros;
//           sum[n], null: the sum is only looked at
template <typename T>
struct ScaledSum {
  const T* delta;
  const T* residual;
  T* sum;
  std::int64_t n;
  T factor;
};

// The number of consecutive elements that are counted together.
inline constexpr std::int64_t kCountedTile = 8192;

// Queues a sum.
//
// SHAPE:    counts[tiles of kCountedTile, at least 1]: how many have a
//           magnitude of at least `threshold` and are not zero; null: not
//           counted. non_finite[1] or null
// THREADS:  the caller's only; the result does not depend on the GPU
// COST:     one launch; reads and writes every array once
template <typename T>
Status QueueScaledSum(const ScaledSum<T>& call, T threshold,
                      std::uint32_t* counts, NonFiniteCount* non_finite,
                      CUstream_st* stream);

// Queues the removal of the counted elements from a sum: the others stay, and
// +0 is in their places.
//
// REQUIRES: before[i] is how many elements the tiles before tile i have
// SHAPE:    sum[n], before[tiles]; values and indices of all counted elements,
//           in ascending order
// THREADS:  as QueueScaledSum
// COST:     one launch; reads every element once
template <typename T>
Status QueueTakeAbove(T* sum, std::int64_t n, T threshold,
                      const std::uint32_t* before, T* values,
                      std::int32_t* indices, CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_SCALED_SUM_H_
