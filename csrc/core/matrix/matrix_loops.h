// The inner loops of products of a large matrix with a few vectors. Plain
// loops, which the compiler vectorises for every SIMD level, with equal
// results.
#ifndef FEDPLUG_CORE_MATRIX_MATRIX_LOOPS_H_
#define FEDPLUG_CORE_MATRIX_MATRIX_LOOPS_H_

#include <cstdint>

#include "core/matrix/halving.h"
#include "core/simd/level.h"

namespace fedplug::matrix {

// Marked loops work on whole blocks of this size: beyond n they read and write
// arbitrary values.
inline constexpr std::int64_t kLoopBlock = 16;

// The most columns whose products are added up at once.
inline constexpr int kRanksAtOnce = 4;

// T is float or double.
template <typename T>
struct MatrixLoops {
  // sums = the products of x and y in the stretches 0, 1 ... 2^depth - 1, each
  // `x_stride` (`y_stride`) after the one before, added up as a balanced tree.
  // Indexed by depth. `y` has a number for each stretch or each product, and in
  // the latter case the loop works on whole blocks.
  using Products = void(const T* x, std::int64_t x_stride, const T* y,
                        std::int64_t y_stride, std::int64_t n, T* sums);
  Products* products_with_numbers[Halving::kMostDepth + 1];
  Products* products_with_vectors[Halving::kMostDepth + 1];

  // sums = terms + the terms after `half`, in whole blocks.
  void (*add_halves)(const T* terms, std::int64_t half, T* sums);

  // sums += terms
  void (*add)(const T* terms, std::int64_t n, T* sums);
  // sums += 0: -0 becomes +0.
  void (*add_zeros)(std::int64_t n, T* sums);

  // total = p[0] * q + p[1] * (q after q_stride) ..., one after the other,
  // and the same added to the total that is there. Indexed by their number.
  using Outer = void(const T* p, const T* q, std::int64_t q_stride,
                     std::int64_t n, T* total);
  Outer* outer[kRanksAtOnce + 1];
  Outer* add_outer[kRanksAtOnce + 1];

  // x is limited to `largest` in magnitude. NaN stays.
  void (*limit)(T largest, std::int64_t n, T* x);

  // differences = x - y, which may be one of the two.
  void (*subtract)(const T* x, const T* y, std::int64_t n, T* differences);
};

// REQUIRES: IsSupported(level)
template <typename T>
MatrixLoops<T> MatrixLoopsFor(SimdLevel level);

}  // namespace fedplug::matrix

#endif  // FEDPLUG_CORE_MATRIX_MATRIX_LOOPS_H_
