// The codes of values in payloads; index_code.h has those of indices.
//
// All forms but the two casts, kCodebook and kBounded write a value as a level
// times a scale:
//   header    0 to 2 bytes that repeat the configuration
//   scales    T, little-endian: of each block of `block_size` values, or of all
//   levels    of every value, packed without gaps
//
//   form        header           scale              levels, packed as
//   kFloat16    -                -                  the value as binary16
//   kBFloat16   -                -                  the value as bfloat16
//   kQsgd       bits, log2 block_size  largest in block   L x / s at random, + L
//   kNearest    as kQsgd, with L x / s rounded to nearest: the same layout
//   kBfp        bits, log2 block_size  int16 e      round(x / 2^e), + L
//   kSign       -                mean magnitude     1 where x >= 0, else 0
//
// kBfp has a step in place of a scale, 2^e: e is the smallest for which the
// largest magnitude of the block is at most (L + 1/2) 2^e, but at least -125
// (double: -1021, half: -24) and at most 127 (1023, 15). Levels beyond L become
// L, and multiples that are too large the largest number.
//
// kCodebook writes the number of a value's bin, and for each bin its mean:
//   header    bits, 1 byte
//   means     T, little-endian: of the values in each of the 2^bits bins, +0 of
//             none
//   bins      of every value, `bits` bits each, packed as the levels of kQsgd
// With m the mean of the values and s their standard deviation (of n - 1), a
// value is in bin round(2^bits (x - m) / (6 s)) + 2^(bits-1), or in the nearest
// there is; in bin 2^(bits-1) where s is 0. For values times the power of two
// that brings the largest magnitude to [1, 2) (from 2^1022 on, times 2^-1022;
// below 2^-1022, times 2^1022), m is sum * (1 / n) and s is
// sqrt(sum of (x - m)^2 * (1 / (n - 1))), with n - 1 at least 1; all of this in
// double. A sum is made of 1024 terms at a time, filled up with +0: the upper
// half is added to the lower half until one is left; and so are these, until
// one is left. The mean of a bin is that of whole numbers: with w the bits that
// n has, values times 2^(60 - w) are cut to whole numbers, and their sum over
// their number is cut again, made a double, scaled back and rounded to T.
//
// kBounded writes multiples of a step, and two extremes from which the step
// follows:
//   header    relative, a float
//   extremes  T, little-endian: the lowest and the highest value, 0 not as -0;
//             +0 where there are no values
//   low bits  of every level, those below its highest 8, packed as the levels
//   levels    of every value, its highest 8 bits or fewer, packed as those of
//             kQsgd
// With R the range between the extremes, no value becomes one that is further
// away than relative * R, and none leaves the range. Levels have the b bits
// that the number floor(1 / relative) + 2 has. In double: p is a power of two
// as for kCodebook, M the largest magnitude times p, and for a T with s bits in
// its significand and the smallest number 2^d
//   w    = (highest * p - lowest * p) * (2 relative * (1 - 2^-50))
//   e    = M * (1.25 * 2^(1 - s) + 2^-49) + 2^(d + 1) * p, the power at least
//          -1022
//   step = the larger of w - e and the largest power of two up to w; 0 if w is
// A value is multiple q(x) = round(x * p * (1 / step)), 0 if step is, and has
// the level q(x) - q(lowest); it becomes (q(lowest) + level) * step * (1 / p),
// or the nearer extreme, rounded to T. Why that keeps the bound: e / 2 is more
// than what T and the arithmetic round off. Multiples of a power of two are
// numbers of T, or finer than its numbers there, which are then kept.
//
// "Largest" means the largest magnitude, L is 2^(bits-1) - 1, and rounding is
// to nearest, ties to even. "At random" rounds down, or up with the probability
// of what is cut off, by noise
// from Philox with the seeds (`seed`, CRC-32 of the values). Levels of b bits
// are one after the other, lowest bit first, and unused bits are 0. 16-bit values are widened to float first; quotients, products and
// casts are each rounded once.
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
// "sign", "codebook", "bounded" or "bfp"; false if there is no such form.
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

// Refuses what CheckValueCode does, and bytes with a wrong header or length for
// `count` values (kDataLoss). Call it before allocating the values.
//
// SHAPE: data[bytes]
Status CheckValueBytes(const std::uint8_t* data, std::int64_t bytes,
                       std::int64_t count, const ValueCode& code,
                       std::int64_t value_bytes);

// Encodes `values` in the form of `code`. T is float, double, Half or BFloat16.
// Values that are NaN or infinite are refused (kNonFinite) and counted in
// *non_finite; `data` is then unspecified.
//
// REQUIRES: 0 <= count < 2^31 (checked); `data` does not overlap `values`
// SHAPE:    values[count], data[ValueCodeBytes(code, count, sizeof(T))]
// THREADS:  uses `parallel`; the result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     reads sizeof(T) bytes per element once; once more for the checksum
//           (forms at random), for a mean of all values and for kBounded; four
//           times for kCodebook
template <typename T>
Status EncodeValues(const T* values, std::int64_t count, const ValueCode& code,
                    std::uint64_t seed, Parallel& parallel, std::uint8_t* data,
                    std::int64_t* non_finite);

// The refusal of EncodeValues, if `non_finite` values are not finite.
Status NonFiniteValues(std::int64_t non_finite, std::int64_t count,
                       std::int64_t first);

// The inverse, for untrusted bytes: refuses (kDataLoss) what EncodeValues does
// not write with this code for `count` values: another length or header, scales
// that are negative (-0 included) or not finite, exponents out of their range,
// levels that do not exist, unused bits that are set, casts, means or extremes
// that are not finite or in the wrong order. Decoded values are therefore
// finite. Whether EncodeValues would choose these scales and levels is not
// checked. After a refusal `values` is unspecified.
//
// REQUIRES: 0 <= count < 2^31 (checked); `data` does not overlap `values`
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
