// Entries of an update, or of its sum with a residual, at given indices, for
// example random ones. Arithmetic as in topk_residual.h.
#ifndef FEDPLUG_CORE_TAKE_FROM_SUM_H_
#define FEDPLUG_CORE_TAKE_FROM_SUM_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// out[j] = values[indices[j]].
//
// REQUIRES: 0 <= n < 2^31; 0 <= indices[j] < n, strictly ascending (checked);
//           out overlaps nothing. T is float or double.
// SHAPE:    values[n], indices[count], out[count]
// THREADS:  uses `parallel` from 2^15 indices on
// COST:     reads one cache line per index
template <typename T>
Status Gather(const T* values, std::int64_t n, const std::int32_t* indices,
              std::int64_t count, Parallel& parallel, T* out);

// With a = delta + residual_in: values are the entries of a at `indices`, and
// residual_out is a with +0 in their places. Sums that are NaN or infinite are
// refused (kNonFinite, with their number in *non_finite). After a refusal
// nothing has changed in place. Elsewhere residual_out is unspecified.
// residual_in may be null, which stands for zeros and saves one read.
//
// REQUIRES: 0 <= n < 2^31; 0 <= indices[j] < n, strictly ascending (checked,
//           before anything is written), residual_in == residual_out (in place)
//           or the two do not overlap; delta does not overlap residual_out. T
//           is float or double.
// SHAPE:    delta[n], residual_in[n], residual_out[n], indices[count],
//           values[count]
// THREADS:  uses `parallel` from 2^19 elements on. The result does not depend
//           on the number of threads, nor on the SIMD level
// COST:     reads 2 * sizeof(T) bytes per element and writes sizeof(T). In
//           place, reads everything once more
template <typename T>
Status TakeFromSum(const T* delta, const T* residual_in, T* residual_out,
                   std::int64_t n, const std::int32_t* indices,
                   std::int64_t count, Parallel& parallel, T* values,
                   std::int64_t* non_finite);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_TAKE_FROM_SUM_H_
