// Random indices that client and server draw alike: one from each of `count`
// runs of nearly equal length.
#ifndef FEDPLUG_CORE_RANDOM_INDICES_H_
#define FEDPLUG_CORE_RANDOM_INDICES_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// Refuses other numbers than 0 <= count <= size < 2^31.
Status CheckDraw(std::int64_t count, std::int64_t size);

// Run i has `length` indices, from begin = floor(i * size / count) on:
//   indices[i] = begin + min(floor(number * length), length - 1)
// where `number` is element i of tf.random.stateless_uniform([count],
// seed=[seed, 0], dtype=float64, alg="philox").
//
// REQUIRES: CheckDraw(count, size) is ok (checked)
// SHAPE:    indices[count]
// THREADS:  uses `parallel`. The result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     writes 4 bytes per index. Half a Philox draw each
Status DrawIndices(std::uint64_t seed, std::int64_t count, std::int64_t size,
                   Parallel& parallel, std::int32_t* indices);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_RANDOM_INDICES_H_
