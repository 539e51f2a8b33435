// Value codes with methods of their own, bounded and codebook, and the mean magnitude, which sign sends.
#ifndef FEDPLUG_CORE_CODES_VALUES_FORMS_H_
#define FEDPLUG_CORE_CODES_VALUES_FORMS_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/codes/values/job.h"
#include "core/simd/level.h"

namespace fedplug {

// As EncodeValues, for job.code.form == kBounded. False if a value is NaN or
// infinite.
template <typename T>
bool EncodeBounded(const Job<T>& job, const T* values, Parallel& parallel,
                   std::uint8_t* data);

// As DecodeValues, for bytes of the right length and header. False if they are
// refused.
template <typename T>
bool DecodeBounded(const Job<T>& job, const std::uint8_t* data,
                   Parallel& parallel, T* values);

// The value code whose levels are the means of bins.

// False if a value is not finite.
template <typename T>
bool EncodeCodebook(const Job<T>& job, const T* values, Parallel& parallel,
                    std::uint8_t* data);

// False if a mean is not finite or unused bits are set.
template <typename T>
bool DecodeCodebook(const Job<T>& job, const std::uint8_t* data,
                    Parallel& parallel, T* values);

// The mean of |x|. The order of additions depends on n alone, so that results
// do not depend on threads, vector width or implementation.

// Each magnitude times 1 / n in double, then the upper half of the terms (the
// smaller one of an odd number) is added to the lower half until one is left.
// At most the largest finite number of T, and 0 for n = 0.
//
// REQUIRES: 0 <= n < 2^31, every value is finite, IsSupported(level). T is
//           float, double, Half or BFloat16
// SHAPE:    values[n]
// THREADS:  uses `parallel`. The result depends neither on the number of
//           threads nor on the SIMD level
// COST:     reads sizeof(T) bytes per element
template <typename T>
T MeanMagnitude(const T* values, std::int64_t n, SimdLevel level,
                Parallel& parallel);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_VALUES_FORMS_H_
