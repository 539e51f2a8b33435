// A large matrix times a few vectors. The order of additions depends on the
// shape alone, so that results do not depend on threads, vector width or
// implementation.
//
// Elements of A are multiplied with those of B, then the upper half of the
// products (the smaller one of an odd number) is added to the lower half until
// one is left. A product without a partner is added to +0. An empty sum is +0.
// Everything is rounded once.
#ifndef FEDPLUG_CORE_MATRIX_TIMES_H_
#define FEDPLUG_CORE_MATRIX_TIMES_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {

// The shape of A, and the number of vectors.
struct MatrixShape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rank;
};

// product = A B, for all matrices in row-major order.
//
// REQUIRES: no number in `shape` is negative (checked), `product` overlaps
//           nothing. T is float or double.
// SHAPE:    a[rows, columns], b[columns, rank], product[rows, rank]
// THREADS:  uses `parallel`, rows to a thread. The result does not depend on
//           the number of threads, nor on the SIMD level
// COST:     reads each element once for every eight vectors
template <typename T>
Status MatrixTimes(const T* a, const T* b, const MatrixShape& shape,
                   Parallel& parallel, T* product);

// product = A' B, with A transposed.
//
// REQUIRES: as MatrixTimes
// SHAPE:    a[rows, columns], b[rows, rank], product[columns, rank]
// THREADS:  as MatrixTimes, but rows that are added up first, and columns, to a
//           thread
// COST:     as MatrixTimes. Takes some 20 sums of 2,048 elements of memory for
//           each thread and vector, and of B a copy
template <typename T>
Status TransposedTimes(const T* a, const T* b, const MatrixShape& shape,
                       Parallel& parallel, T* product);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_MATRIX_TIMES_H_
