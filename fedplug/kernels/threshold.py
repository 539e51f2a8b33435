"""Selection of the entries of an update that reach a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels
from fedplug.kernels.arguments import real

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
    """Selects the entries of ``a = delta + residual`` with ``|a| >= threshold``.

    Zeros are never selected. ``residual`` becomes ``a`` with the selected entries set to +0: scattering the
    values into it restores ``a`` bit for bit (Strom, Interspeech 2015).

    Args:
        delta: The update; any shape, n elements, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        threshold: The smallest selected magnitude, 0 or more; rounded to the dtype.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        ``(values, indices)``: the entries, in the dtype of ``delta``, and their flat indices, int32, strictly
        ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or ``threshold`` is
            negative or NaN.
        NonFiniteError: A sum is NaN or infinite; ``count`` of the error has their number. ``residual`` is
            unchanged.
    """
    with np.errstate(over="ignore"):  # an overflow becomes infinite, and no magnitude reaches it
        bound = np.full(1, real("threshold", threshold), np.asarray(delta).dtype)
    return _kernels.threshold_residual(delta, residual, bound, residual_out)
