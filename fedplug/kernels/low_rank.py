"""Products of a large matrix with thin ones. The order of additions depends on the shape alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels
from fedplug.kernels.arguments import real

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times", "sum_and_largest"]


def sum_and_largest(
    delta: NDArray[Any], residual: NDArray[Any], *, out: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Computes ``delta + residual`` and its largest magnitude.

    Args:
        delta: Any shape, n elements, float32 or float64.
        residual: n elements, the dtype of ``delta``. Becomes the sum unless ``out`` is given.
        out: An array for the sum; n elements, the dtype of ``delta``.

    Returns:
        ``residual`` or ``out``, and ``[1]`` of the same dtype: 0 if there are no elements, NaN if a sum is
        NaN.

    Raises:
        ArgumentError: An array cannot be used, or two differ in size or share memory.
    """
    return _kernels.sum_and_largest(delta, residual, out)


def matrix_times(
    a: NDArray[Any], b: NDArray[Any], *, scale: float = 1, transposed: bool = False
) -> NDArray[Any]:
    """Computes ``(a / scale) b``, or ``(a / scale)' b``, for a few columns of ``b``.

    ``csrc/core/matrix_times.h`` describes the order of additions.

    Args:
        a: ``[m, n]``, float32 or float64.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``; the dtype of ``a``.
        scale: The divisor of the elements of ``a``; the quotients are 0 if it is 0.
        transposed: Whether to multiply ``a'``.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``a``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.matrix_times(a, b, real("scale", scale), transposed)


def low_rank_matrix(
    p: NDArray[Any],
    q: NDArray[Any],
    *,
    scale: float = 1,
    dtype: DTypeLike = np.float32,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Computes ``scale p q'``, one column of each after the other.

    Args:
        p: ``[m, r]``, r at least 1; float64 for a float64 matrix, else float32.
        q: ``[n, r]``, the dtype of ``p``.
        scale: The factor of the sums, applied before they are rounded to ``dtype``.
        dtype: The floating dtype of the matrix.
        out: An array for the matrix; ``m n`` elements of ``dtype``.

    Returns:
        ``out``, or a new ``[m, n]``; an overflow becomes the largest number of the dtype.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.low_rank_matrix(p, q, real("scale", scale), np.dtype(dtype), out)


def low_rank_residual(
    a: NDArray[Any],
    p: NDArray[Any],
    q: NDArray[Any],
    *,
    scale: float = 1,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Computes ``a - low_rank_matrix(p, q)``.

    Args:
        a: ``m n`` elements, float32 or float64.
        p: See `low_rank_matrix`.
        q: See `low_rank_matrix`.
        scale: See `low_rank_matrix`.
        out: An array for the difference; ``m n`` elements of the dtype of ``a``. It may be ``a``.

    Returns:
        ``out``, or a new ``[m, n]``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.low_rank_residual(a, p, q, real("scale", scale), out)
