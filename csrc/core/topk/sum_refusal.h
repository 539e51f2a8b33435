// The refusal of sums that are not finite, for kernels that count them first.
#ifndef FEDPLUG_CORE_TOPK_SUM_REFUSAL_H_
#define FEDPLUG_CORE_TOPK_SUM_REFUSAL_H_

#include <cstdint>
#include <string>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/topk_residual.h"

namespace fedplug {

inline Status NonFiniteSums(std::int64_t non_finite, std::int64_t n) {
  return {StatusCode::kNonFinite,
          std::to_string(non_finite) + " of " + std::to_string(n) +
              " sums of delta and residual are NaN or infinite; leave this "
              "update out"};
}

// kNonFinite if some of the sums are NaN or infinite. *non_finite is how many.
//
// REQUIRES: 0 <= n < 2^31
// SHAPE:    delta[n], residual[n] or null for zeros
// THREADS:  uses `parallel`
// COST:     reads 2 * sizeof(T) bytes per element
template <typename T>
Status RefuseNonFinite(const T* delta, const T* residual, std::int64_t n,
                       Parallel& parallel, std::int64_t* non_finite) {
  *non_finite = CountNonFinite(delta, residual, n, parallel);
  return *non_finite == 0 ? Status() : NonFiniteSums(*non_finite, n);
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_TOPK_SUM_REFUSAL_H_
