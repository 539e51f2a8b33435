// The product of two thin matrices: p[i, 0] q[c, 0] + p[i, 1] q[c, 1] ..., in
// this order. Each operation is rounded once.
// Numbers too large become the largest number. NaN stays NaN.
#ifndef FEDPLUG_CORE_LOW_RANK_H_
#define FEDPLUG_CORE_LOW_RANK_H_

#include <cstdint>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/matrix_times.h"

namespace fedplug {

// matrix = P Q'
//
// REQUIRES: shape.rank >= 1, and no other number in it is negative (checked);
//           `matrix` overlaps nothing. T is float or double.
// SHAPE:    p[rows, rank], q[columns, rank], matrix[rows, columns]
// THREADS:  uses `parallel`. The result does not depend on the number of
//           threads, nor on the SIMD level
// COST:     writes sizeof(T) bytes per element, past the caches where these
//           would not hold them
template <typename T>
Status LowRankMatrix(const T* p, const T* q, const MatrixShape& shape,
                     Parallel& parallel, T* matrix);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_LOW_RANK_H_
