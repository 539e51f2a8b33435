// Products with thin matrices in the slow and obvious way, as
// core/matrix_times.h and core/low_rank.h say.
#ifndef FEDPLUG_TESTS_REFERENCE_MATRIX_H_
#define FEDPLUG_TESTS_REFERENCE_MATRIX_H_

#include <vector>

#include "core/base/float_bits.h"
#include "core/matrix_times.h"

namespace fedplug::reference {

// A B, or A' B.
template <typename T>
std::vector<T> Times(const std::vector<T>& a, const std::vector<T>& b,
                     const MatrixShape& shape, bool transposed);

// P Q'
template <typename T>
std::vector<T> LowRankMatrix(const std::vector<T>& p, const std::vector<T>& q,
                             const MatrixShape& shape);

// The bits, with one pattern for all NaNs.
template <typename T>
std::vector<FloatBitsOf<T>> WithoutNaNs(const std::vector<T>& values) {
  std::vector<FloatBitsOf<T>> bits;
  for (const T value : values) {
    const bool nan = MagnitudeKey(value) > FloatTraits<T>::kInfinity;
    bits.push_back(nan ? static_cast<FloatBitsOf<T>>(-1) : ToBits(value));
  }
  return bits;
}

}  // namespace fedplug::reference

#endif  // FEDPLUG_TESTS_REFERENCE_MATRIX_H_
