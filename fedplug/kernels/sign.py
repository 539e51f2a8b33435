"""One bit for each entry of an update, and the error for the next round.

Must not know TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["sign_residual"]


def sign_residual(delta: NDArray[Any], residual: NDArray[Any]) -> NDArray[np.uint8]:
    """Quantizes ``a = delta + residual`` to signs and their mean magnitude, and leaves the error behind.

    The code is what `encode_values` makes of ``a`` with the form ``"sign"``; ``residual`` becomes ``a`` minus
    what `decode_values` makes of that (Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019).

    Args:
        delta: The update; any shape, n elements, a floating dtype. Not changed.
        residual: What earlier rounds left behind; n elements, the dtype of ``delta``. Updated in place.

    Returns:
        ``[itemsize + ceil(n / 8)]`` uint8.

    Raises:
        ArgumentError: An array cannot be used, or the two differ in size or share memory.
        NonFiniteError: A sum is NaN or infinite; its ``count`` says how many are. Nothing is changed.
    """
    return _kernels.sign_residual(delta, residual)
