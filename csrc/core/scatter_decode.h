// Adds sparse payloads into one dense accumulator, or makes their dense sum.
#ifndef FEDPLUG_CORE_SCATTER_DECODE_H_
#define FEDPLUG_CORE_SCATTER_DECODE_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// accumulator[indices[j]] += weights[p] * values[j] for every payload p and
// every j of it, payloads in order. Each product and each sum is rounded once
// (no fused multiply-add). Payload p owns the entries row_splits[p] up to
// row_splits[p + 1]. Validates everything and allocates all memory before the
// first write: after an error, which names the payload, or std::bad_alloc the
// accumulator is unchanged.
//
// REQUIRES: 0 <= n < 2^31, row_splits ascends from 0 to `entries`, within a
//           payload the indices ascend strictly and lie in [0, n). Anything
//           else is kInvalidArgument. T is float, double, Half or BFloat16.
// SHAPE:    accumulator[n], values[entries], indices[entries],
//           row_splits[payloads + 1], weights[payloads] or null
// THREADS:  uses `parallel`. The result does not depend on the number of
//           threads
// COST:     O(entries). Never O(payloads * n)
template <typename T>
Status ScatterDecodeAdd(T* accumulator, std::int64_t n, const T* values,
                        const std::int32_t* indices, std::int64_t entries,
                        const std::int64_t* row_splits, std::int64_t payloads,
                        const T* weights, Parallel& parallel);

// The sum of the payloads: bit for bit the sum of ScatterDecodeAdd for zeros.
// After an error `sum` is unchanged.
//
// REQUIRES: as ScatterDecodeAdd
// SHAPE:    sum[n], the others as for ScatterDecodeAdd
// THREADS:  as ScatterDecodeAdd
// COST:     O(entries + n): writes each element once, and adds to it while it
//           is in the cache
template <typename T>
Status ScatterDecode(T* sum, std::int64_t n, const T* values,
                     const std::int32_t* indices, std::int64_t entries,
                     const std::int64_t* row_splits, std::int64_t payloads,
                     const T* weights, Parallel& parallel);

// Checks n, for a caller that allocates before it calls one of them.
Status CheckDenseSize(std::int64_t n);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SCATTER_DECODE_H_
