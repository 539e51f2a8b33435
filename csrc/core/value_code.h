// Codes of values: the quantizers. docs/wire-format.md specifies their bytes,
// and how values are decoded. kQsgd and kNearest write "qsgd/1". Every other
// form writes the wire id of its name.
//
// This is how values are encoded. With L = 2^(bits-1) - 1 and the largest
// magnitude s of a block,
//   kFloat16, kBFloat16  the nearest number, at most the largest
//   kQsgd                L x / s, rounded down, or up with the probability of
//                        its fraction: noise is from Philox with the seeds
//                        (`seed`, CRC-32 of the values)
//   kNearest             L x / s, rounded to nearest
//   kBfp                 x / 2^e, rounded to nearest, from -L to L. e is the
//                        smallest for which s is at most (L + 1/2) 2^e, within
//                        the range of exponents
//   kSign                1 where x >= 0, else 0
//   kCodebook            the number of the value's bin, see below
//   kBounded             q(x) - q(lowest), see the page
// Levels of blocks of zeros are 0. 16-bit values are widened to float first.
// Quotients, products and casts are each rounded once, ties to even.
//
// kCodebook: with the mean m of all values and their standard deviation d, of
// n - 1, a value is in bin round(2^bits (x - m) / (6 d)) + 2^(bits-1), or in
// the nearest that exists. If d is 0, it is in bin 2^(bits-1). All of this is
// in double, of values times the power of two that brings the largest magnitude
// to [1, 2) (from 2^1022 on 2^-1022, and below 2^-1022 2^1022):
//   m = sum * (1 / n)
//   d = sqrt(sum of (x - m)^2 * (1 / (n - 1))), with n - 1 at least 1
// A sum adds 1024 terms at a time, filled up with +0: it adds the upper half to
// the lower half until one is left. It adds these in the same way. The mean of
// a bin is a mean of whole numbers. With the number of bits w of n, values
// times 2^(60 - w) are cut to whole numbers. Their sum divided by their number
// is cut again, converted to double, scaled back and rounded to T. It is +0 for
// an empty bin.
//
// kBounded keeps its bound because `lost` / 2 on that page exceeds the rounding
// errors of T and of the arithmetic. Multiples of a power of two are numbers of
// T, or finer than its numbers there, which are then kept.
//
// Sources: the docstrings of the encoders of these names in fedplug/encoders.
#ifndef FEDPLUG_CORE_VALUE_CODE_H_
#define FEDPLUG_CORE_VALUE_CODE_H_

#include <cstdint>
#include <string>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

enum class ValueForm {
  kFloat16,
  kBFloat16,
  kQsgd,
  kNearest,
  kSign,
  kCodebook,
  kBounded,
  kBfp
};

struct ValueCode {
  ValueForm form;
  int bits = 8;  // kQsgd, kNearest and kBfp: 2 to 8; kCodebook: 1 to 8
  // kQsgd, kNearest and kBfp: a power of two <= 2^20
  std::int64_t block_size = 1;
  float relative = 0;  // kBounded: 2^-15 to 1/4
};

// Finds a form by its name: "float16", "bfloat16", "qsgd", "nearest",
// "sign", "codebook", "bounded" or "bfp". False if there is no such form.
bool FindValueForm(const std::string& name, ValueForm* form);

// Refuses bits and block sizes out of range for the form, and counts outside
// [0, 2^31).
Status CheckValueCode(const ValueCode& code, std::int64_t count = 0);

// The number of encoded bytes of `count` values of `value_bytes` bytes each.
//
// REQUIRES: CheckValueCode(code) is ok; 0 <= count < 2^31; value_bytes is 2, 4
//           or 8
std::int64_t ValueCodeBytes(const ValueCode& code, std::int64_t count,
                            std::int64_t value_bytes);

// Refuses as CheckValueCode does, and bytes with a wrong header or length for
// `count` values (kDataLoss). Call it before allocating the values.
//
// SHAPE: data[bytes]
Status CheckValueBytes(const std::uint8_t* data, std::int64_t bytes,
                       std::int64_t count, const ValueCode& code,
                       std::int64_t value_bytes);

// Encodes `values` in the form of `code`. T is float, double, Half or BFloat16.
// Values that are NaN or infinite are refused (kNonFinite) and counted in
// *non_finite. `data` is then unspecified.
//
// REQUIRES: 0 <= count < 2^31 (checked), `data` does not overlap `values`
// SHAPE:    values[count], data[ValueCodeBytes(code, count, sizeof(T))]
// THREADS:  uses `parallel`. The result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     reads sizeof(T) bytes per element once. Once more for the checksum
//           (forms at random), for a mean of all values and for kBounded. Four
//           times for kCodebook
template <typename T>
Status EncodeValues(const T* values, std::int64_t count, const ValueCode& code,
                    std::uint64_t seed, Parallel& parallel, std::uint8_t* data,
                    std::int64_t* non_finite);

// The refusal of EncodeValues, if `non_finite` values are not finite.
Status NonFiniteValues(std::int64_t non_finite, std::int64_t count,
                       std::int64_t first);

// The inverse, for untrusted bytes: refuses (kDataLoss) bytes that EncodeValues
// does not write with this code for `count` values: another length or header,
// scales that are negative (-0 included) or not finite, exponents out of their
// range, levels that do not exist, unused bits that are set, casts, means or
// extremes that are not finite or in the wrong order. Decoded values are
// therefore finite. Whether EncodeValues would choose these scales and levels
// is not checked. After a refusal `values` is unspecified.
//
// REQUIRES: 0 <= count < 2^31 (checked), `data` does not overlap `values`
// SHAPE:    data[bytes], values[count]
// THREADS:  as EncodeValues
// COST:     reads each byte once, writes sizeof(T) bytes per element
template <typename T>
Status DecodeValues(const std::uint8_t* data, std::int64_t bytes,
                    std::int64_t count, const ValueCode& code,
                    Parallel& parallel, T* values);

// Returns the refusals of DecodeValues to callers that decode elsewhere, and
// the largest magnitude of the values. kCodebook and kBounded are refused
// (kInvalidArgument).
//
// REQUIRES: as DecodeValues
// SHAPE:    data[bytes], largest[1]
// THREADS:  as EncodeValues
// COST:     reads each byte once
template <typename T>
Status CheckValues(const std::uint8_t* data, std::int64_t bytes,
                   std::int64_t count, const ValueCode& code,
                   Parallel& parallel, T* largest);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_VALUE_CODE_H_
