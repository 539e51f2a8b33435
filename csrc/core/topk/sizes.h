// The limits of k and n of a selection.
#ifndef FEDPLUG_CORE_TOPK_SIZES_H_
#define FEDPLUG_CORE_TOPK_SIZES_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace fedplug::topk {

inline Status CheckSizes(std::int64_t n, std::int64_t k) {
  if (n < 0 || n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "n = " + std::to_string(n) + " is not in [0, 2^31)"};
  }
  if (k < 0) {
    return {StatusCode::kInvalidArgument,
            "k = " + std::to_string(k) + " is negative"};
  }
  return {};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SIZES_H_
