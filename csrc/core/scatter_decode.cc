// First every index is checked, payloads in parallel; then the accumulator is
// cut into one tile per thread, and each thread walks all payloads in order and
// adds what falls into its tile. So no two threads write the same element, and
// the order of the additions to an element is the order of the payloads
// whatever the number of threads. COST: reads the indices twice and the values
// once; reads and writes one accumulator element per entry; finding a tile
// inside the payloads adds O(threads * payloads * log(k)).
#include "core/scatter_decode.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/float_environment.h"
#include "core/tiles.h"

namespace fedplug {
namespace {

constexpr std::int64_t kSmallestTile = 1 << 15;

Status Invalid(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

Status CheckRowSplits(const std::int64_t* row_splits, std::int64_t payloads,
                      std::int64_t entries) {
  if (payloads < 0) {
    return Invalid(
        "row_splits is empty; it holds one number more than there are "
        "payloads, the first of them 0");
  }
  if (row_splits[0] != 0) {
    return Invalid("row_splits begins with " + std::to_string(row_splits[0]) +
                   " instead of 0");
  }
  for (std::int64_t p = 0; p < payloads; ++p) {
    if (row_splits[p + 1] < row_splits[p]) {
      return Invalid("payload " + std::to_string(p) +
                     ": row_splits falls from " +
                     std::to_string(row_splits[p]) + " to " +
                     std::to_string(row_splits[p + 1]));
    }
  }
  if (row_splits[payloads] != entries) {
    return Invalid("row_splits ends with " +
                   std::to_string(row_splits[payloads]) + ", but there are " +
                   std::to_string(entries) + " entries");
  }
  return {};
}

// The first entry of [begin, end) whose index is out of range or not above the
// one before it; `end` when all are fine.
std::int64_t FirstBadEntry(const std::int32_t* indices, std::int64_t begin,
                           std::int64_t end, std::int64_t n) {
  std::int64_t previous = -1;
  for (std::int64_t j = begin; j < end; ++j) {
    if (indices[j] <= previous || indices[j] >= n) return j;
    previous = indices[j];
  }
  return end;
}

Status BadEntryStatus(const std::int32_t* indices,
                      const std::int64_t* row_splits, std::int64_t payload,
                      std::int64_t entry, std::int64_t n) {
  const std::int32_t index = indices[entry];
  const std::int64_t position = entry - row_splits[payload];
  std::string problem;
  if (index < 0 || index >= n) {
    problem = " is not in [0, " + std::to_string(n) + ")";
  } else {
    problem = " is not above the one before it (" +
              std::to_string(indices[entry - 1]) + ")";
  }
  return Invalid("payload " + std::to_string(payload) + ": index " +
                 std::to_string(index) + problem + ", at position " +
                 std::to_string(position) + " of " +
                 std::to_string(row_splits[payload + 1] - row_splits[payload]));
}

Status CheckIndices(const std::int32_t* indices, std::int64_t entries,
                    const std::int64_t* row_splits, std::int64_t payloads,
                    std::int64_t n, Parallel& parallel) {
  const int tiles = static_cast<int>(
      std::min<std::int64_t>(TileCount(entries, kSmallestTile, parallel),
                             std::max<std::int64_t>(payloads, 1)));
  std::vector<Status> found(static_cast<std::size_t>(tiles));
  parallel.Run(tiles, [&](int t) {
    const Range mine = TileOf(payloads, tiles, t);
    for (std::int64_t p = mine.begin; p < mine.end; ++p) {
      const std::int64_t end = row_splits[p + 1];
      const std::int64_t bad = FirstBadEntry(indices, row_splits[p], end, n);
      if (bad == end) continue;
      found[static_cast<std::size_t>(t)] =
          BadEntryStatus(indices, row_splits, p, bad, n);
      return;
    }
  });
  for (Status& status : found) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

template <typename T>
void AddTile(T* accumulator, Range tile, const T* values,
             const std::int32_t* indices, const std::int64_t* row_splits,
             std::int64_t payloads, const T* weights) {
  for (std::int64_t p = 0; p < payloads; ++p) {
    const std::int32_t* const end = indices + row_splits[p + 1];
    const std::int32_t* index =
        std::lower_bound(indices + row_splits[p], end, tile.begin);
    const T* value = values + (index - indices);
    for (; index != end && *index < tile.end; ++index, ++value) {
      const T term = weights == nullptr ? *value : weights[p] * *value;
      accumulator[*index] = accumulator[*index] + term;
    }
  }
}

}  // namespace

template <typename T>
Status ScatterDecodeAdd(T* accumulator, std::int64_t n, const T* values,
                        const std::int32_t* indices, std::int64_t entries,
                        const std::int64_t* row_splits, std::int64_t payloads,
                        const T* weights, Parallel& parallel) {
  if (n < 0 || n > INT32_MAX) {
    return Invalid("n = " + std::to_string(n) + " is not in [0, 2^31)");
  }
  if (Status status = CheckRowSplits(row_splits, payloads, entries);
      !status.ok()) {
    return status;
  }
  if (Status status =
          CheckIndices(indices, entries, row_splits, payloads, n, parallel);
      !status.ok()) {
    return status;
  }
  const int tiles = TileCount(entries, kSmallestTile, parallel);
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    AddTile(accumulator, TileOf(n, tiles, t), values, indices, row_splits,
            payloads, weights);
  });
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                       \
  template Status ScatterDecodeAdd<T>(                               \
      T*, std::int64_t, const T*, const std::int32_t*, std::int64_t, \
      const std::int64_t*, std::int64_t, const T*, Parallel&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
