"""Products of a large matrix with thin ones, with the same bits for any number of threads.

Libraries for matrix multiplication order additions by threads and vector width. These ops multiply elements
first, and add the products halves to halves (csrc/core/matrix_times.h). The references flush denormal
numbers to zero, as TensorFlow does. The kernels keep them.
"""

from __future__ import annotations

import math

import numpy as np

import fedplug.kernels as kernels
from fedplug.ops import _tensorflow
from fedplug.ops.arrays import asarray, divide_no_nan, sqrt, stack, transpose, where, zeros_like
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.spec import itemsize
from fedplug.ops.types import Array

__all__ = ["low_rank_matrix", "matrix_times", "orthonormal_columns"]


@also_on(tensors=lambda: _tensorflow.low_rank.matrix_times)
def matrix_times(a: Array, b: Array, *, transposed: bool = False, lowering: str | None = None) -> Array:
    """Computes ``a b``, or ``a' b``, for a few columns of ``b``.

    Args:
        a: ``[m, n]``. float32 or float64.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``, the dtype of ``a``. A graph needs a static r.
        transposed: Whether to multiply ``a'``.
        lowering: See `fedplug.ops`.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``a``.

    Raises:
        ArgumentError: The shapes do not fit.
    """
    return kernels.matrix_times(np.ascontiguousarray(a), np.ascontiguousarray(b), transposed=transposed)


@also_on(tensors=lambda: _tensorflow.low_rank.low_rank_matrix)
def low_rank_matrix(p: Array, q: Array, *, lowering: str | None = None) -> Array:
    """Computes ``p q'``, one column of each after the other.

    Args:
        p: ``[m, r]``. float32 or float64; r is at least 1. A graph needs a static r.
        q: ``[n, r]``, the dtype of ``p``.
        lowering: See `fedplug.ops`.

    Returns:
        ``[m, n]``. An overflow becomes the largest number of the dtype.

    Raises:
        ArgumentError: The shapes do not fit.
    """
    shape = p.shape[0], q.shape[0]
    out = take_result(shape[0] * shape[1], p.dtype)
    return kernels.low_rank_matrix(np.ascontiguousarray(p), np.ascontiguousarray(q), out=out).reshape(shape)


_EPSILONS = {4: 2.0**-23, 8: 2.0**-52}  # by the size of a number in bytes


def orthonormal_columns(p: Array) -> Array:
    """Makes the columns orthonormal in their order; a column that depends on those before becomes zero.

    Each column is projected twice, which is enough for orthogonality up to rounding (Giraud et al., "The loss
    of orthogonality in the Gram-Schmidt orthogonalization process", 2005). The rest of a dependent column is
    rounding noise. Normalized, it would point in an arbitrary direction.

    Args:
        p: ``[m, r]``. float32 or float64. A graph needs a static shape.
    """
    noise = asarray(8 * math.sqrt(p.shape[0]) * _EPSILONS[itemsize(p.dtype)], like=p)
    columns, done = transpose(p), list[Array]()
    for j in range(p.shape[1]):
        column = before = columns[j]
        for _ in range(2):
            for other in done:
                column = column - _dot(other, column) * other
        norm = sqrt(_dot(column, column))
        keep = norm > noise * sqrt(_dot(before, before))
        done.append(where(keep, divide_no_nan(column, norm), zeros_like(column)))
    return stack(done, axis=1)


def _dot(x: Array, y: Array) -> Array:
    return matrix_times(x[None], y[:, None])[0, 0]
