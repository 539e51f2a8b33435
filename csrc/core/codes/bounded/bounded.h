// The form kBounded of value_code.h: extremes, a step, and whole multiples of
// it.
#ifndef FEDPLUG_CORE_CODES_BOUNDED_BOUNDED_H_
#define FEDPLUG_CORE_CODES_BOUNDED_BOUNDED_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/codes/values/job.h"

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

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_BOUNDED_BOUNDED_H_
