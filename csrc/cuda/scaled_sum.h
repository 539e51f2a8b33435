// The sum of an update and its scaled residual, on a GPU. Product and sum are
// each rounded once, as in the core. All work is queued on a stream. Nothing is
// allocated and nothing waits for the GPU.
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

// Queues a sum.
//
// SHAPE:    non_finite[1] or null
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     one launch. Reads and writes every array once
template <typename T>
Status QueueScaledSum(const ScaledSum<T>& call, NonFiniteCount* non_finite,
                      CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_SCALED_SUM_H_
