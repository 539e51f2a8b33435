// The checks of sparse payloads before a decoder writes.
#ifndef FEDPLUG_CORE_SPARSE_SCATTER_PAYLOADS_H_
#define FEDPLUG_CORE_SPARSE_SCATTER_PAYLOADS_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug::scatter {

// Number of entries below which another thread does not pay.
inline constexpr std::int64_t kSmallestShare = 1 << 15;

// Concatenated sparse payloads: payload p owns the entries row_splits[p] up to
// row_splits[p + 1].
// SHAPE: values[entries], indices[entries], row_splits[count + 1],
//        weights[count] or null
template <typename T>
struct Payloads {
  const T* values;
  const std::int32_t* indices;
  const std::int64_t* row_splits;
  std::int64_t count;
  const T* weights;
};

// Refuses row splits that are not those of `entries` entries.
// SHAPE: row_splits[payloads + 1], not read when `payloads` is negative
Status CheckRowSplits(const std::int64_t* row_splits, std::int64_t payloads,
                      std::int64_t entries);

// Refuses indices that do not ascend strictly inside [0, n) within each
// payload, and names the first such payload, whatever the number of threads.
// REQUIRES: CheckRowSplits passed
// COST:     reads the indices once
Status CheckIndices(const std::int32_t* indices, std::int64_t entries,
                    const std::int64_t* row_splits, std::int64_t payloads,
                    std::int64_t n, Parallel& parallel);

}  // namespace fedplug::scatter

#endif  // FEDPLUG_CORE_SPARSE_SCATTER_PAYLOADS_H_
