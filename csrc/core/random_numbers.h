// Random numbers and random indices, from the words of Philox.
#ifndef FEDPLUG_CORE_RANDOM_NUMBERS_H_
#define FEDPLUG_CORE_RANDOM_NUMBERS_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// The draws of tf.random.stateless_uniform([count], seed=[first, second],
// alg="philox"): all words (T is std::uint32_t; as int32 those of dtype=int32
// without bounds), or numbers in [0, 1), multiples of 2^-23 (float) or 2^-52
// (double).
//
// REQUIRES: count >= 0. T is std::uint32_t, float or double
// SHAPE:    numbers[count]
// THREADS:  uses `parallel`. The result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     a Philox draw for every 16 bytes
template <typename T>
void DrawNumbers(std::uint64_t first, std::uint64_t second, std::int64_t count,
                 Parallel& parallel, T* numbers);

// Random indices that client and server draw alike: one from each of `count`
// runs of nearly equal length.

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

#endif  // FEDPLUG_CORE_RANDOM_NUMBERS_H_
