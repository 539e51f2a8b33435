"""The body of a sparse payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["sparse_body", "split_sparse_body"]


def sparse_body(count: int, index_code: NDArray[np.uint8], values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Writes the number of entries, their index code and their values one behind the other.

    The layout is described in ``csrc/core/sparse_form.h``.

    Args:
        count: The number of entries, below 2**31.
        index_code: Where they are, ``[bytes]`` uint8.
        values: The bytes of their values, ``[bytes]`` uint8.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array cannot be used, or ``count`` or the length of ``index_code`` is out of range.
    """
    return _kernels.sparse_body(count, index_code, values)


def split_sparse_body(
    body: NDArray[np.uint8], elements: int
) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]:
    """Finds the parts of a body. Every byte is treated as hostile.

    Args:
        body: ``[bytes]`` uint8.
        elements: Of the tensor the entries are of.

    Returns:
        ``(count, index_code, values)``; ``count`` is in ``[0, elements]``, the others are read-only parts of
        ``body``.

    Raises:
        ArgumentError: ``body`` cannot be used as an array.
        PayloadError: The numbers cannot be read, are not in their fewest bytes, or do not fit.
    """
    return _kernels.split_sparse_body(body, elements)
