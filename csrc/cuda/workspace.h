// The memory that a caller gives to a call on a GPU.
#ifndef FEDPLUG_CUDA_WORKSPACE_H_
#define FEDPLUG_CUDA_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace fedplug::cuda {

// The bytes of a part, so that the next one is aligned to 256 bytes.
inline std::int64_t AlignedBytes(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Refuses (kInvalidArgument) a workspace that is too small.
inline Status CheckWorkspace(std::size_t bytes, std::size_t needed) {
  if (bytes >= needed) return {};
  return {StatusCode::kInvalidArgument,
          "the workspace has " + std::to_string(bytes) +
              " bytes but must have " + std::to_string(needed)};
}

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_WORKSPACE_H_
