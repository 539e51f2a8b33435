"""Values quantized after a random rotation: the bytes that travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["decode_rotated", "encode_rotated"]


def encode_rotated(
    values: NDArray[Any], key: tuple[int, int], levels: NDArray[np.float64], block_size: int
) -> NDArray[np.uint8]:
    """Rotates blocks of values at random, and takes every element to the nearest level.

    Method and layout are described in ``csrc/core/rotated_code.h``.

    Args:
        values: Any shape, n elements, a floating dtype. A block with one that is NaN or infinite becomes
            bytes that are refused when they are decoded.
        key: Of the rotation, two numbers in ``[-2**63, 2**63)``.
        levels: ``[2**b]`` float64, b from 0 to 7: the positive ones, ascending; the others are their
            negatives. An element takes b + 1 bits.
        block_size: A power of two up to 2**20; at least 8, where there is more than one block.

    Returns:
        ``[bytes]`` uint8; as many as the size, the dtype and the other arguments say.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
    """
    return _kernels.encode_rotated(values, key, levels, block_size)


def decode_rotated(
    data: NDArray[np.uint8],
    count: int,
    key: tuple[int, int],
    levels: NDArray[np.float64],
    block_size: int,
    *,
    dtype: DTypeLike = np.float32,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Undoes :func:`encode_rotated`, up to the error of the levels. Every byte is treated as hostile.

    Args:
        data: ``[bytes]`` uint8.
        count: How many values there must be.
        key: As they were encoded, and so ``levels`` and ``block_size``.
        levels: See ``key``.
        block_size: See ``key``.
        dtype: The dtype of the values that were encoded.
        out: ``[count]`` of that dtype, to be written over; after an error it holds anything.

    Returns:
        ``out``, or a new ``[count]`` array: finite; what is too large for the dtype is its largest number.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: These are not the bytes of ``count`` values. Memory is only asked for if their number is
            right.
    """
    return _kernels.decode_rotated(data, count, key, levels, block_size, np.dtype(dtype), out)
