"""A large matrix and its approximation by thin ones: sums in an order that depends on the shape alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times", "sum_and_largest"]


def sum_and_largest(
    delta: NDArray[Any], residual: NDArray[Any], *, out: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """``delta + residual``, and the largest magnitude in it.

    Args:
        delta: Any shape, n elements, float32 or float64.
        residual: n elements, the dtype of ``delta``. Becomes the sum, unless ``out`` is given.
        out: n elements, the dtype of ``delta``: where the sum goes, whatever is there.

    Returns:
        ``residual`` or ``out``, and ``[1]`` of the same dtype: 0 of no elements, NaN where a sum is NaN.

    Raises:
        ArgumentError: An array cannot be used, or two differ in size or share memory.
    """
    return _kernels.sum_and_largest(delta, residual, out)


def matrix_times(
    a: NDArray[Any], b: NDArray[Any], *, scale: float = 1, transposed: bool = False
) -> NDArray[Any]:
    """``(a / scale) b``, or ``(a / scale)' b``, for a few columns of ``b``.

    The order of additions is described in ``csrc/core/matrix_times.h``.

    Args:
        a: ``[m, n]``, a floating dtype; 16-bit elements are widened.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``: float64 where ``a`` is, else float32.
        scale: Elements of ``a`` are divided by it first, and are 0 where it is 0.
        transposed: Whether it is ``a'`` that is multiplied.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``b``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.matrix_times(a, b, scale, transposed)


def low_rank_matrix(
    p: NDArray[Any],
    q: NDArray[Any],
    *,
    scale: float = 1,
    dtype: DTypeLike = np.float32,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """``scale p q'``, a column of each after the other.

    Args:
        p: ``[m, r]``, r at least 1; float64 for a float64 matrix, else float32.
        q: ``[n, r]``, the dtype of ``p``.
        scale: By which the sums are multiplied, before they are rounded to ``dtype``.
        dtype: A floating one: of the matrix.
        out: ``m n`` elements of ``dtype``, to be written over.

    Returns:
        ``out``, or a new ``[m, n]``; what is too large for the dtype is its largest number.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.low_rank_matrix(p, q, scale, np.dtype(dtype), out)


def low_rank_residual(
    a: NDArray[Any],
    p: NDArray[Any],
    q: NDArray[Any],
    *,
    scale: float = 1,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """What `low_rank_matrix` misses of ``a``: the difference, rounded to its dtype.

    Args:
        a: ``m n`` elements, a floating dtype.
        p: As for `low_rank_matrix`.
        q: Likewise.
        scale: Likewise.
        out: ``m n`` elements of the dtype of ``a``, to be written over; may be ``a``.

    Returns:
        ``out``, or a new ``[m, n]``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.low_rank_residual(a, p, q, scale, out)
