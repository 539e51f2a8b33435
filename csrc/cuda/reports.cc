// Puts what the GPU found into words: those the core would have used.
#include <string>

#include "cuda/topk_residual.h"

namespace fedplug::cuda {

Status ToStatus(const TopKReport& report, std::int64_t n,
                NonFinitePolicy policy) {
  if (report.non_finite == 0 || policy == NonFinitePolicy::kDrop) return {};
  return {StatusCode::kNonFinite,
          std::to_string(report.non_finite) + " of " + std::to_string(n) +
              " sums of delta and residual are NaN or infinite, the first at "
              "index " +
              std::to_string(report.first_non_finite) +
              "; nothing was changed. Leave this update out, or choose the "
              "policy \"drop\" to count such sums as zero"};
}

}  // namespace fedplug::cuda
