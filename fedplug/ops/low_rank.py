"""Products of a large matrix with thin ones, with the same bits for any number of threads.

Libraries for matrix multiplication order additions by threads and vector width. These ops multiply elements
first, and add the products halves to halves (csrc/core/matrix_times.h). They compute in float32, or in
float64 for float64. The references flush denormal numbers to zero, as TensorFlow does; the kernels keep them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for, take_result
from fedplug.ops.types import Array, SumAndLargest

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times", "sum_and_largest"]


@also_on(tensors=lambda: _tensorflow.low_rank.sum_and_largest)
def sum_and_largest(delta: Array, residual: Array, *, lowering: str | None = None) -> SumAndLargest:
    """Computes ``delta + residual``, in the memory of the next residual, and its largest magnitude.

    The op never overwrites the residual, even if it was donated: the caller may still refuse the sum.

    Args:
        delta: The update; any shape; float32 or float64.
        residual: The residual of earlier rounds; the shape and dtype of ``delta``.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: The shapes differ.
    """
    place = place_for(residual, delta)
    if place is residual:
        place = kernels.empty(residual.shape, residual.dtype)
    total, largest = kernels.sum_and_largest(np.ascontiguousarray(delta), residual, out=place)
    return SumAndLargest(total, largest.reshape(()))


@also_on(tensors=lambda: _tensorflow.low_rank.matrix_times)
def matrix_times(
    a: Array, b: Array, *, scale: Any = 1, transposed: bool = False, lowering: str | None = None
) -> Array:
    """Computes ``(a / scale) b``, or ``(a / scale)' b``, for a few columns of ``b``.

    Args:
        a: ``[m, n]``; float32 or float64.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``, the dtype of ``a``. A graph needs a static r.
        scale: The divisor of the elements of ``a``, a scalar; the quotients are 0 if it is 0.
        transposed: Whether to multiply ``a'``.
        lowering: See `fedplug.ops`.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``a``.

    Raises:
        ArgumentError: The shapes do not fit.
    """
    return kernels.matrix_times(
        np.ascontiguousarray(a), np.ascontiguousarray(b), scale=float(scale), transposed=transposed
    )


@also_on(tensors=lambda: _tensorflow.low_rank.low_rank_matrix)
def low_rank_matrix(p: Array, q: Array, *, dtype: Any, scale: Any = 1, lowering: str | None = None) -> Array:
    """Computes ``scale p q'``, one column of each after the other, and rounds it to ``dtype``.

    Args:
        p: ``[m, r]`` in the `wide_dtype` of ``dtype``; r is at least 1. A graph needs a static r.
        q: ``[n, r]``, the dtype of ``p``.
        dtype: float32, float64, bfloat16 or float16.
        scale: The factor, a scalar.
        lowering: See `fedplug.ops`.

    Returns:
        ``[m, n]``; an overflow becomes the largest number of the dtype.

    Raises:
        ArgumentError: The shapes do not fit.
    """
    shape = p.shape[0], q.shape[0]
    out = take_result(shape[0] * shape[1], np.dtype(dtype))
    factors = np.ascontiguousarray(p), np.ascontiguousarray(q)
    return kernels.low_rank_matrix(*factors, scale=float(scale), dtype=dtype, out=out).reshape(shape)


@also_on(tensors=lambda: _tensorflow.low_rank.low_rank_residual)
def low_rank_residual(a: Array, p: Array, q: Array, *, scale: Any = 1, lowering: str | None = None) -> Array:
    """Computes ``a - low_rank_matrix(p, q)`` over ``a``: the caller must not use ``a`` again.

    Args:
        a: ``[m, n]``; float32 or float64.
        p: ``[m, r]``, the dtype of ``a``; r is at least 1. A graph needs a static r.
        q: ``[n, r]``, the dtype of ``p``.
        scale: The factor of the product, a scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The difference; ``[m, n]``.

    Raises:
        ArgumentError: The shapes do not fit.
    """
    factors = np.ascontiguousarray(p), np.ascontiguousarray(q)
    return kernels.low_rank_residual(a, *factors, scale=float(scale), out=a)
