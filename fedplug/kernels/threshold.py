"""Takes the entries that reach a threshold out of an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["threshold_residual"]


def threshold_residual(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    threshold: float,
    *,
    residual_out: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Takes the entries of ``a = delta + residual`` with ``|a| >= threshold`` and leaves the others.

    Values keep their sign; zeros are never taken. ``residual`` becomes ``a`` with the entries taken set to
    +0, so that putting the values back into their places gives ``a`` bit for bit (Strom, Interspeech 2015).

    Args:
        delta: The update; any shape, n elements, float32 or float64. Not changed.
        residual: What earlier rounds left behind; n elements, the dtype of ``delta``. Updated in place,
            unless ``residual_out`` is given. None, which needs ``residual_out``, is as zeros.
        threshold: The smallest magnitude that is taken, 0 or more; rounded to the dtype.
        residual_out: n elements, the dtype of ``delta``: where the new residual goes, whatever is there.
            After an error it holds anything.

    Returns:
        ``(values, indices)``: the entries, in the dtype of ``delta``, and their flat positions, int32,
        strictly ascending; as many as there are.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or ``threshold`` is
            negative or NaN.
        NonFiniteError: A sum is NaN or infinite; its ``count`` says how many are. ``residual`` is not
            changed.
    """
    with np.errstate(over="ignore"):  # what is too large for the dtype is infinite, and nothing reaches it
        bound = np.full(1, threshold, np.asarray(delta).dtype)
    return _kernels.threshold_residual(delta, residual, bound, residual_out)
