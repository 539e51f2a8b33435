// Cuts a range [0, n) into one contiguous tile per task.
#ifndef FEDPLUG_CORE_BASE_TILES_H_
#define FEDPLUG_CORE_BASE_TILES_H_

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"

namespace fedplug {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// One tile per thread, but none with fewer than `smallest` units of work, for
// which waking a thread costs more than it saves. At least one.
inline int TileCount(std::int64_t work, std::int64_t smallest,
                     const Parallel& parallel) {
  const std::int64_t useful = work / smallest;
  return static_cast<int>(
      std::clamp<std::int64_t>(useful, 1, std::max(1, parallel.MaxThreads())));
}

// REQUIRES: 0 <= n, n * tiles < 2^63, 0 <= tile < tiles
inline Range TileOf(std::int64_t n, int tiles, int tile) {
  return {n * tile / tiles, n * (tile + 1) / tiles};
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_TILES_H_
