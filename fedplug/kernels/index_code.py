"""The Rice code of ascending indices.

Must not know TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["decode_indices", "encode_indices"]


def encode_indices(indices: NDArray[np.int32], size: int) -> NDArray[np.uint8]:
    """Packs strictly ascending indices into a Rice code: about 8.1 bits each at a density of 1 %.

    The code of given indices is unique. Its layout is described in ``csrc/core/index_code.h`` (Rice and
    Plaunt, IEEE Trans. Commun. 1971).

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, size)``.
        size: How many positions there are; below 2**31.

    Returns:
        ``[bytes]`` uint8; empty when there are no indices.

    Raises:
        ArgumentError: An array cannot be used, or an index is out of range or not above the one before it.
    """
    return _kernels.encode_indices(indices, size)


def decode_indices(code: NDArray[np.uint8], count: int, size: int) -> NDArray[np.int32]:
    """Unpacks what :func:`encode_indices` packed. Every byte is treated as hostile.

    Args:
        code: ``[bytes]`` uint8.
        count: How many indices the code holds.
        size: How many positions there are; below 2**31.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``; encoding them gives ``code`` again.

    Raises:
        ArgumentError: ``code`` cannot be used as an array, or not ``0 <= count <= size < 2**31``.
        PayloadError: No ``count`` indices below ``size`` have this code.
    """
    return _kernels.decode_indices(code, count, size)
