"""Products of a large matrix with thin ones. The order of additions depends on the shape alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fedplug._kernels as _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedplug.types import Array

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times"]


def matrix_times(a: Array, b: Array, *, transposed: bool = False) -> NDArray[Any]:
    """Computes ``a b``, or ``a' b``, for a few columns of ``b``.

    ``csrc/core/matrix_times.h`` describes the order of additions.

    Args:
        a: ``[m, n]``, float32 or float64.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``. The dtype of ``a``.
        transposed: Whether to multiply ``a'``.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``a``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.matrix_times(a, b, transposed)


def low_rank_matrix(p: Array, q: Array, *, out: Array | None = None) -> NDArray[Any]:
    """Computes ``p q'``, one column of each after the other.

    Args:
        p: ``[m, r]``, r at least 1. float32 or float64.
        q: ``[n, r]``, the dtype of ``p``.
        out: An array for the matrix. ``m n`` elements of the dtype of ``p``.

    Returns:
        ``out``, or a new ``[m, n]``. An overflow becomes the largest number of the dtype.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.low_rank_matrix(p, q, out)


def low_rank_residual(a: Array, p: Array, q: Array, *, out: Array | None = None) -> NDArray[Any]:
    """Computes ``a - low_rank_matrix(p, q)``.

    Args:
        a: ``m n`` elements, float32 or float64.
        p: See `low_rank_matrix`.
        q: See `low_rank_matrix`.
        out: An array for the difference. ``m n`` elements of the dtype of ``a``. It may be ``a``.

    Returns:
        ``out``, or a new ``[m, n]``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """
    return _kernels.low_rank_residual(a, p, q, out)
