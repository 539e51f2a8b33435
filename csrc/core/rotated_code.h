// A quantizer with a random rotation: after it the elements of any vector are
// almost normally distributed, so one set of levels suits all vectors.
//
// A vector is cut into blocks of B elements, the last one filled up with zeros.
// Of a block x with p = max |x|:
//   r = x / p, n = sum of r^2
//   y = H D r            D: signs, minus where bit i of the words that
//                        DrawNumbers draws is 1, i counting elements of the
//                        vector; H: the Hadamard matrix, entries 1 and -1
//   q = the level nearest to y / sqrt(n), the lower one of two as near
//   s = n / (sum of y q) * p
// and decoded it is s D H q. A quotient by 0 is 0, and a block with an element
// that is NaN or infinite has s = NaN and the codes of zeros: decoders refuse
// it. The bytes:
//   scales    s of each block, little-endian: float, of doubles double
//   codes     of every element, with those that were filled up: the number of
//             its level, in ascending order, in `bits` bits; packed without
//             gaps, lowest bit first; unused bits are 0
//
// H takes sums and differences of elements 1, 2, 4 ... B / 2 apart, in this
// order; a sum over a block adds the right half to the left half until one is
// left. 16-bit values are widened to float first. Everything is rounded once,
// in float, of doubles in double; levels are rounded to that, and so are the
// numbers in the middle between two of them, which are computed in double.
// Numbers too large become the largest number.
//
// Source: Vargaftik et al., "EDEN: Communication-Efficient and Robust
// Distributed Mean Estimation for Federated Learning", ICML 2022, algorithm 1.
#ifndef FEDPLUG_CORE_ROTATED_CODE_H_
#define FEDPLUG_CORE_ROTATED_CODE_H_

#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

struct RotatedCode {
  std::int64_t block_size;   // B, a power of two up to 2^20
  std::int64_t first_seed;   // of the signs
  std::int64_t second_seed;  // likewise
  std::vector<double>
      levels;  // the positive ones, ascending: a power of two of
               // them up to 128; the others are their negatives
};

// Refuses configurations that violate the comments above, and counts outside
// [0, 2^31).
Status CheckRotatedCode(const RotatedCode& code, std::int64_t count = 0);

// The number of encoded bytes of `count` values of `value_bytes` bytes each.
//
// REQUIRES: CheckRotatedCode(code, count) is ok; value_bytes is 2, 4 or 8
std::int64_t RotatedCodeBytes(const RotatedCode& code, std::int64_t count,
                              std::int64_t value_bytes);

// Refuses what CheckRotatedCode does, and a wrong number of bytes for `count`
// values (kDataLoss). Call it before allocating the values.
Status CheckRotatedBytes(std::int64_t bytes, std::int64_t count,
                         const RotatedCode& code, std::int64_t value_bytes);

// Writes `values` in this form. T is float, double, Half or BFloat16.
//
// REQUIRES: CheckRotatedCode(code, count) is ok (checked); `data` does not
//           overlap `values`
// SHAPE:    values[count], data[RotatedCodeBytes(code, count, sizeof(T))]
// THREADS:  uses `parallel`, a block to a thread; the result does not depend on
//           the number of threads, nor on the SIMD level
// COST:     reads each element twice, the second time from the caches; takes
//           about 5 bytes of memory per element of a block for each thread
template <typename T>
Status EncodeRotated(const T* values, std::int64_t count,
                     const RotatedCode& code, Parallel& parallel,
                     std::uint8_t* data);

// Returns the refusals of DecodeRotated to callers that decode elsewhere, and a
// number of T that no value exceeds in magnitude.
//
// SHAPE:    data[bytes], bound[1]
// THREADS:  the caller's only
// COST:     reads the scales
template <typename T>
Status CheckRotated(const std::uint8_t* data, std::int64_t bytes,
                    std::int64_t count, const RotatedCode& code, double* bound);

// The inverse, for untrusted bytes: refuses (kDataLoss) a wrong length, scales
// that are negative (-0 included) or not finite, unused bits that are set.
// Decoded values are finite. After a refusal `values` is unspecified.
//
// REQUIRES: as EncodeRotated
// SHAPE:    data[bytes], values[count]
// THREADS:  as EncodeRotated
// COST:     reads each byte once, writes sizeof(T) bytes per element
template <typename T>
Status DecodeRotated(const std::uint8_t* data, std::int64_t bytes,
                     std::int64_t count, const RotatedCode& code,
                     Parallel& parallel, T* values);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_ROTATED_CODE_H_
