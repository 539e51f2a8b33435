"""Entries of the sum of an update and its residual, at given indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fedplug._kernels as _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedplug.types import Array

__all__ = ["gather_sum", "take_from_sum"]


def gather_sum(delta: Array, residual: Array | None, indices: Array) -> NDArray[Any]:
    """Computes ``(delta + residual)[indices]``, and no other sum.

    Args:
        delta: The update. Any shape, n elements, float32 or float64.
        residual: n elements, the dtype of ``delta``. None for zeros.
        indices: Flat indices in ``[0, n)``, in any order. int32 ``[k]``.

    Returns:
        The sums, ``[k]``, in the dtype of ``delta``. They need not be finite.

    Raises:
        ArgumentError: An array cannot be used, the sizes differ, or an index is out of range.
    """
    return _kernels.gather_sum(delta, residual, indices)


def take_from_sum(
    delta: Array,
    residual: Array | None,
    indices: Array,
    *,
    residual_out: Array | None = None,
) -> NDArray[Any]:
    """Takes the entries of ``a = delta + residual`` at ``indices``.

    ``residual`` becomes ``a`` with these entries set to +0: scattering the values into it restores ``a`` bit
    for bit.

    Args:
        delta: The update. Any shape, n elements, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        indices: Flat indices in ``[0, n)``, strictly ascending. int32 ``[k]``.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        The entries, ``[k]``, in the dtype of ``delta``.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or the indices are out of
            range or do not ascend.
        NonFiniteError: A sum is NaN or infinite. ``count`` of the error has their number. ``residual`` is
            unchanged.
    """
    return _kernels.take_from_sum(delta, residual, indices, residual_out)
