// Random numbers that client and server draw alike: those of TensorFlow's
// stateless random ops.
#ifndef FEDPLUG_CORE_RANDOM_NUMBERS_H_
#define FEDPLUG_CORE_RANDOM_NUMBERS_H_

#include <cstdint>

#include "core/base/parallel.h"

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

}  // namespace fedplug

#endif  // FEDPLUG_CORE_RANDOM_NUMBERS_H_
