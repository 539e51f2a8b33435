// Exact top-k sparsification fused with the error-feedback update. The contract
// is in csrc/README.md; the slow and obvious version every implementation is
// tested against is in reference.h.
#ifndef FEDPLUG_CORE_TOPK_RESIDUAL_H_
#define FEDPLUG_CORE_TOPK_RESIDUAL_H_

#include <cstdint>

#include "core/float16.h"
#include "core/parallel.h"
#include "core/status.h"

namespace fedplug {

enum class NonFinitePolicy {
  kError,  // a NaN or infinite sum is an error; residual_out is then exactly
           // residual_in (if in place: untouched)
  kDrop,  // a NaN or infinite sum is replaced by zero before the selection, and
          // counted
};

// a = delta + residual_in; the k entries with the largest |a| leave as (values,
// indices), the rest stays in residual_out. Ties go to the lower index; indices
// ascend.
//
// REQUIRES: 0 <= n < 2^31; k >= 0; residual_in == residual_out (in place) or
// the two do not overlap; delta overlaps
//           neither. T is float, double, Half or BFloat16.
// SHAPE:    delta[n], residual_in[n], residual_out[n], values[min(k, n)],
// indices[min(k, n)] THREADS:  uses `parallel`; the result does not depend on
// the number of threads COST:     see the .cc file (bytes read and written per
// element)
//
// *non_finite is the number of NaN or infinite sums that were found (also when
// an error is returned).
template <typename T>
Status TopKResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, std::int64_t k, NonFinitePolicy policy,
                    Parallel& parallel, T* values, std::int32_t* indices,
                    std::int64_t* non_finite);

// How many of the sums delta + residual are NaN or infinite: what the policy
// kDrop would drop.
//
// REQUIRES: 0 <= n < 2^31
// SHAPE:    delta[n], residual[n]
// THREADS:  uses `parallel`; the result does not depend on the number of
// threads COST:     reads 2 * sizeof(T) bytes per element
template <typename T>
std::int64_t CountNonFinite(const T* delta, const T* residual, std::int64_t n,
                            Parallel& parallel);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_TOPK_RESIDUAL_H_
