"""Products of a large matrix with thin ones, with the same bits for any number of threads.

Libraries for matrix multiplication order additions by threads and vector width. These ops multiply elements
first, and add the products halves to halves (csrc/core/matrix_times.h). The references flush denormal
numbers to zero, as TensorFlow does. The kernels keep them.
"""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times"]


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


@also_on(tensors=lambda: _tensorflow.low_rank.low_rank_residual)
def low_rank_residual(a: Array, p: Array, q: Array, *, lowering: str | None = None) -> Array:
    """Computes ``a - low_rank_matrix(p, q)`` over ``a``: the caller must not use ``a`` again.

    Args:
        a: ``[m, n]``. float32 or float64.
        p: ``[m, r]``, the dtype of ``a``; r is at least 1. A graph needs a static r.
        q: ``[n, r]``, the dtype of ``p``.
        lowering: See `fedplug.ops`.

    Returns:
        The difference. ``[m, n]``.

    Raises:
        ArgumentError: The shapes do not fit.
    """
    return kernels.low_rank_residual(a, np.ascontiguousarray(p), np.ascontiguousarray(q), out=a)
