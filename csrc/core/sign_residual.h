// Quantization to one bit fused with the error-feedback update: the value code
// kSign of a sum, and what it leaves behind.
#ifndef FEDPLUG_CORE_SIGN_RESIDUAL_H_
#define FEDPLUG_CORE_SIGN_RESIDUAL_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// a = delta + residual_in; `data` is what EncodeValues writes for a with the
// form kSign, and residual_out is a minus what DecodeValues makes of it. A sum
// that is NaN or infinite is refused (kNonFinite, and *non_finite is their
// number) before anything is written.
//
// REQUIRES: 0 <= n < 2^31 (checked); residual_in == residual_out (in place) or
//           the two do not overlap; the others do not overlap. T is float,
//           double, Half or BFloat16.
// SHAPE:    delta[n], residual_in[n], residual_out[n],
//           data[ValueCodeBytes({kSign}, n, sizeof(T))]
// THREADS:  uses `parallel`; the result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     reads 4 * sizeof(T) bytes per element and writes sizeof(T) and a
//           bit
template <typename T>
Status SignResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, Parallel& parallel, std::uint8_t* data,
                    std::int64_t* non_finite);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SIGN_RESIDUAL_H_
