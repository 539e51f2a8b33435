// The limits of k and n of a selection.
#ifndef FEDPLUG_CORE_TOPK_SIZES_H_
#define FEDPLUG_CORE_TOPK_SIZES_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace fedplug::topk {

inline Status CheckSizes(std::int64_t n, std::int64_t k) {
  if (Status status = CheckInt32("n", n); !status.ok()) return status;
  if (k < 0) {
    return {StatusCode::kInvalidArgument,
            "k = " + std::to_string(k) + " is negative"};
  }
  return {};
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SIZES_H_
