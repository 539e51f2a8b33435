// Whether values that nobody vouches for are numbers, before they are used; and
// a copy of them, which costs no second walk.
#ifndef FEDPLUG_CORE_ALL_FINITE_H_
#define FEDPLUG_CORE_ALL_FINITE_H_

#include <cstdint>

#include "core/base/float16.h"
#include "core/base/parallel.h"

namespace fedplug {

// Whether no value is NaN or infinite.
//
// REQUIRES: n >= 0; T is float, double, Half or BFloat16
// SHAPE:    values[n]
// THREADS:  uses `parallel` from 2^20 bytes on
// COST:     reads each value at most once, and stops soon after the first that
//           is not finite
template <typename T>
bool AllFinite(const T* values, std::int64_t n, Parallel& parallel);

// The same of values that lie anywhere among bytes, in the order of bytes of
// this machine, and where it is so a copy of them; else `values` holds
// anything.
//
// REQUIRES: as AllFinite; the two do not overlap
// SHAPE:    bytes[n * sizeof(T)], values[n]
// THREADS:  as AllFinite
// COST:     a copy
template <typename T>
bool CopyFinite(const std::uint8_t* bytes, std::int64_t n, T* values,
                Parallel& parallel);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_ALL_FINITE_H_
