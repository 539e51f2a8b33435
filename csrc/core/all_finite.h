// Checks untrusted values for NaN and infinity, and copies them in the same
// walk.
#ifndef FEDPLUG_CORE_ALL_FINITE_H_
#define FEDPLUG_CORE_ALL_FINITE_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/base/parallel.h"

namespace fedplug {

// Returns whether no value is NaN or infinite.
//
// REQUIRES: n >= 0. T is float, double, Half or BFloat16
// SHAPE:    values[n]
// THREADS:  uses `parallel` from 2^20 bytes on
// COST:     reads each value at most once, and stops soon after the first that
//           is not finite
template <typename T>
bool AllFinite(const T* values, std::int64_t n, Parallel& parallel);

// The same for values at any address, in the byte order of this machine. Copies
// them if all are finite. Otherwise `values` is unspecified.
//
// REQUIRES: as AllFinite, the two do not overlap
// SHAPE:    bytes[n * sizeof(T)], values[n]
// THREADS:  as AllFinite
// COST:     a copy
template <typename T>
bool CopyFinite(const std::uint8_t* bytes, std::int64_t n, T* values,
                Parallel& parallel);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_ALL_FINITE_H_
