// Products with thin matrices in the slow and obvious way, as
// core/matrix_times.h and core/low_rank.h say.
#ifndef FEDPLUG_TESTS_REFERENCE_MATRIX_H_
#define FEDPLUG_TESTS_REFERENCE_MATRIX_H_

#include <vector>

#include "core/base/float_bits.h"
#include "core/codes/values/loops.h"
#include "core/matrix_times.h"

namespace fedplug::reference {

// (A / scale) B, or (A / scale)' B.
template <typename T>
std::vector<T> Times(const std::vector<T>& a, T scale, const std::vector<T>& b,
                     const MatrixShape& shape, bool transposed);

// scale P Q'
template <typename T>
std::vector<T> LowRankMatrix(const std::vector<value_loops::WideOf<T>>& p,
                             const std::vector<value_loops::WideOf<T>>& q,
                             value_loops::WideOf<T> scale,
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
