// Adds an update and its residual, and finds the largest magnitude of the sum.
// Arithmetic as in topk_residual.h.
#ifndef FEDPLUG_CORE_SUM_AND_LARGEST_H_
#define FEDPLUG_CORE_SUM_AND_LARGEST_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// sum = delta + residual; *largest = max |sum|, 0 for n = 0. A sum that is NaN
// makes it NaN, one that is infinite otherwise infinity.
//
// REQUIRES: n >= 0; `sum` is `residual` or overlaps nothing. T is float or
//           double.
// SHAPE:    delta[n], residual[n], sum[n]
// THREADS:  uses `parallel`; the result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     reads 2 * sizeof(T) bytes per element and writes sizeof(T), past
//           the caches where these would not hold them
template <typename T>
Status SumAndLargest(const T* delta, const T* residual, std::int64_t n,
                     Parallel& parallel, T* sum, T* largest);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SUM_AND_LARGEST_H_
