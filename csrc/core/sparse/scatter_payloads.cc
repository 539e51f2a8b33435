#include "core/sparse/scatter_payloads.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/tiles.h"

namespace fedplug::scatter {
namespace {

Status Invalid(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

// Whether the entries [begin, end) of one payload ascend strictly inside
// [0, n). Without an early exit, which lets the compiler compare many at once:
// if each is above the one before it, only the ends can be out of range.
bool AllGood(const std::int32_t* indices, std::int64_t begin, std::int64_t end,
             std::int64_t n) {
  if (begin == end) return true;
  std::int32_t falls = 0;
  for (std::int64_t j = begin + 1; j < end; ++j) {
    falls |= static_cast<std::int32_t>(indices[j] <= indices[j - 1]);
  }
  return falls == 0 && indices[begin] >= 0 && indices[end - 1] < n;
}

// The first entry of [begin, end) whose index is out of range or not above the
// one before it.
// REQUIRES: there is one
std::int64_t FirstBadEntry(const std::int32_t* indices, std::int64_t begin,
                           std::int64_t n) {
  std::int64_t previous = -1;
  std::int64_t j = begin;
  for (; indices[j] > previous && indices[j] < n; ++j) previous = indices[j];
  return j;
}

Status BadEntryStatus(const std::int32_t* indices,
                      const std::int64_t* row_splits, std::int64_t payload,
                      std::int64_t n) {
  const std::int64_t entry = FirstBadEntry(indices, row_splits[payload], n);
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

}  // namespace

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

Status CheckIndices(const std::int32_t* indices, std::int64_t entries,
                    const std::int64_t* row_splits, std::int64_t payloads,
                    std::int64_t n, Parallel& parallel) {
  const int shares = static_cast<int>(
      std::min<std::int64_t>(TileCount(entries, kSmallestShare, parallel),
                             std::max<std::int64_t>(payloads, 1)));
  std::vector<Status> found(static_cast<std::size_t>(shares));
  parallel.Run(shares, [&](int s) {
    const Range mine = TileOf(payloads, shares, s);
    for (std::int64_t p = mine.begin; p < mine.end; ++p) {
      if (AllGood(indices, row_splits[p], row_splits[p + 1], n)) continue;
      found[static_cast<std::size_t>(s)] =
          BadEntryStatus(indices, row_splits, p, n);
      return;
    }
  });
  for (Status& status : found) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

}  // namespace fedplug::scatter
