"""Quantization after a random rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels
from fedplug.kernels.arguments import whole

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["check_rotated", "decode_rotated", "encode_rotated"]


def encode_rotated(
    values: NDArray[Any], key: tuple[int, int], levels: NDArray[np.float64], block_size: int
) -> NDArray[np.uint8]:
    """Rotates blocks of values at random, and quantizes every element to the nearest level.

    ``csrc/core/rotated_code.h`` describes method and layout.

    Args:
        values: Any shape, n elements, a floating dtype. The decoder refuses a block that holds NaN or
            infinity.
        key: The key of the rotation, two integers in ``[-2**63, 2**63)``.
        levels: The positive levels, ascending; ``[2**b]`` float64, b from 0 to 7. The others are their
            negatives, and an element needs b + 1 bits.
        block_size: A power of two up to 2**20; at least 8 if there is more than one block.

    Returns:
        ``[bytes]`` uint8; their number follows from the size, the dtype and the other arguments.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
    """
    return _kernels.encode_rotated(values, _key(key), levels, whole("block_size", block_size))


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
    """Decodes values from untrusted bytes that :func:`encode_rotated` wrote, up to the quantization error.

    Args:
        data: ``[bytes]`` uint8.
        count: Number of values.
        key: The key of the encoder.
        levels: The levels of the encoder.
        block_size: The block size of the encoder.
        dtype: The dtype of the encoded values.
        out: An array for the values; ``[count]`` of that dtype.

    Returns:
        ``out``, or a new ``[count]`` array of finite values; an overflow becomes the largest number of the
        dtype.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: The bytes are not a code of ``count`` values. Their number is checked before memory is
            allocated.
    """
    return _kernels.decode_rotated(
        data,
        whole("count", count),
        _key(key),
        levels,
        whole("block_size", block_size),
        np.dtype(dtype),
        out,
    )


def check_rotated(
    data: NDArray[np.uint8],
    count: int,
    levels: NDArray[np.float64],
    block_size: int,
    *,
    dtype: DTypeLike = np.float32,
) -> float:
    """Checks untrusted bytes that are decoded elsewhere, and returns a bound for the magnitude of values.

    Args:
        data: See :func:`decode_rotated`, also for the other arguments.
        count: See ``data``.
        levels: See ``data``.
        block_size: See ``data``.
        dtype: See ``data``.

    Raises:
        ArgumentError: An argument is out of range.
        PayloadError: :func:`decode_rotated` refuses the bytes.
    """
    return _kernels.check_rotated(
        data, whole("count", count), levels, whole("block_size", block_size), np.dtype(dtype)
    )


def _key(key: tuple[int, int]) -> tuple[int, int]:
    first, second = key
    return whole("key[0]", first), whole("key[1]", second)
