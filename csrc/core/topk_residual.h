// Exact top-k sparsification, fused with the error-feedback update.
//
// With a = delta + residual:
// - The key of an entry is the bits of |a| as an unsigned integer. Exactly
//   min(k, n) entries with the largest keys are selected. Ties go to the lower
//   index. Indices ascend strictly.
// - Values are the bits of a, also the sign of -0. residual' is a with the
//   selected entries set to +0.
// - A sum that is NaN or infinite is refused, with the number of them and the
//   position of the first. residual_out is then residual_in (unchanged if in
//   place).
// - The residual may be null, which stands for zeros and saves one read.
// Every implementation, also on CUDA, gives these bits. A slow version is in
// tests/reference/reference.cc.
#ifndef FEDPLUG_CORE_TOPK_RESIDUAL_H_
#define FEDPLUG_CORE_TOPK_RESIDUAL_H_

#include <cstdint>
#include <vector>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// Selects the k entries with the largest |a| as (values, indices) and leaves
// the rest in residual_out. If residual_in is null, residual_out is unspecified
// after an error.
//
// REQUIRES: 0 <= n < 2^31, k >= 0, residual_in == residual_out (in place) or
//           the two do not overlap, delta does not overlap residual_out. T is
//           float or double.
// SHAPE:    delta[n], residual_in[n], residual_out[n], values[min(k, n)],
//           indices[min(k, n)]
// THREADS:  uses `parallel` from 2^19 elements on. The result does not depend
//           on the number of threads
// COST:     for k <= n / 5, out of place, one pass: reads 2 * sizeof(T) bytes
//           per element and writes sizeof(T), and writes twice and reads once
//           about k entries. In place also writes a log of 2 bytes per element.
//           In place below 32 MiB, and for larger k or heavy ties, checks every
//           sum before it writes: reads 2 * sizeof(T) bytes per element more,
//           but writes the entries once. A misleading sample costs two more
//           reads of everything. Scratch memory is kept for the next call.
//
// Throws std::bad_alloc if there is no memory, and no data is lost: an array
// updated in place is unchanged or, in a list with a k for each, as after k =
// 0.
//
// *non_finite is the number of NaN or infinite sums.
template <typename T>
Status TopKResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, std::int64_t k, Parallel& parallel,
                    T* values, std::int32_t* indices, std::int64_t* non_finite);

// One tensor of a list, as the arguments of TopKResidual.
template <typename T>
struct TensorUpdate {
  const T* delta;
  const T* residual_in;
  T* residual_out;
  std::int64_t n;
};

// Selects the k entries with the largest |a| of all tensors together: ties go
// to the lower tensor, then to the lower index. Entries row_splits[t] up to
// row_splits[t + 1] are those of tensor t, with their indices in it. A sum that
// is not finite in any tensor leaves all tensors unchanged.
//
// REQUIRES: as TopKResidual, together the tensors have fewer than 2^31 elements
// SHAPE:    values[min(k, sum of n)], indices[min(k, sum of n)],
//           row_splits[tensors + 1]
// COST:     that of one tensor with as many elements
template <typename T>
Status GroupedTopKResidual(const std::vector<TensorUpdate<T>>& tensors,
                           std::int64_t k, Parallel& parallel, T* values,
                           std::int32_t* indices, std::int64_t* row_splits,
                           std::int64_t* non_finite);

// Selects ks[t] entries of each tensor t. The tensors are one update: a
// sum that is not finite in any of them leaves all unchanged.
//
// REQUIRES: as TopKResidual for each tensor
// SHAPE:    ks[tensors]; values, indices: the sum of min(ks[t], n of t);
//           row_splits[tensors + 1]
// THREADS:  one thread to a tensor, unless it is a large part of all
// COST:     that of TopKResidual for each; together less than 32 MiB in place,
//           reading everything once more
template <typename T>
Status GroupedTopKResidual(const std::vector<TensorUpdate<T>>& tensors,
                           const std::vector<std::int64_t>& ks,
                           Parallel& parallel, T* values, std::int32_t* indices,
                           std::int64_t* row_splits, std::int64_t* non_finite);

// Returns the number of NaN or infinite sums delta + residual.
//
// REQUIRES: 0 <= n < 2^31
// SHAPE:    delta[n], residual[n] or null for zeros
// THREADS:  as TopKResidual
// COST:     reads 2 * sizeof(T) bytes per element
template <typename T>
std::int64_t CountNonFinite(const T* delta, const T* residual, std::int64_t n,
                            Parallel& parallel);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_TOPK_RESIDUAL_H_
