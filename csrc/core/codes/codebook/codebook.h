// The value code whose levels are the means of bins.
#ifndef FEDPLUG_CORE_CODES_CODEBOOK_CODEBOOK_H_
#define FEDPLUG_CORE_CODES_CODEBOOK_CODEBOOK_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/codes/values/job.h"

namespace fedplug {

// False if a value is not finite.
template <typename T>
bool EncodeCodebook(const Job<T>& job, const T* values, Parallel& parallel,
                    std::uint8_t* data);

// False if a mean is not finite or unused bits are set.
template <typename T>
bool DecodeCodebook(const Job<T>& job, const std::uint8_t* data,
                    Parallel& parallel, T* values);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_CODEBOOK_CODEBOOK_H_
