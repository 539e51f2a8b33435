"""Entries of the sum of an update and its residual, at given places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["gather_sum", "take_from_sum"]


def gather_sum(
    delta: NDArray[Any], residual: NDArray[Any] | None, indices: NDArray[np.int32]
) -> NDArray[Any]:
    """``(delta + residual)[indices]``, of which only these sums are computed.

    Args:
        delta: The update; any shape, n elements, float32 or float64.
        residual: n elements, the dtype of ``delta``; None is as zeros.
        indices: Flat positions in ``[0, n)``, in any order; int32 ``[k]``.

    Returns:
        The sums, ``[k]``, in the dtype of ``delta``; they need not be finite.

    Raises:
        ArgumentError: An array cannot be used, the sizes differ, or an index is not of an element.
    """
    return _kernels.gather_sum(delta, residual, indices)


def take_from_sum(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    indices: NDArray[np.int32],
    *,
    residual_out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Takes the entries of ``a = delta + residual`` at ``indices`` and leaves the others.

    ``residual`` becomes ``a`` with the entries taken set to +0, so that putting the values back into their
    places gives ``a`` bit for bit.

    Args:
        delta: The update; any shape, n elements, float32 or float64. Not changed.
        residual: What earlier rounds left behind; n elements, the dtype of ``delta``. Updated in place,
            unless ``residual_out`` is given. None, which needs ``residual_out``, is as zeros.
        indices: Flat positions in ``[0, n)``, strictly ascending; int32 ``[k]``.
        residual_out: n elements, the dtype of ``delta``: where the new residual goes, whatever is there.
            After an error it holds anything.

    Returns:
        The entries, ``[k]``, in the dtype of ``delta``.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or the indices are not
            of elements or do not ascend.
        NonFiniteError: A sum is NaN or infinite; its ``count`` says how many are. ``residual`` is not
            changed.
    """
    return _kernels.take_from_sum(delta, residual, indices, residual_out)
