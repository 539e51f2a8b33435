"""Quantization after a random rotation. csrc/core/rotated_code.h specifies method and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels
from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.block_scaling import block_count
from fedplug.ops.checks import require_finite
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.floats import wide_dtype
from fedplug.ops.types import Array

__all__ = ["decode_rotated", "encode_on_device", "encode_rotated", "rotation_block_size"]

_SMALLEST, _LARGEST, _PADDING = 2**7, 2**20, 32
_KEY_BYTES = 8


@also_on(tensors=lambda: _tensorflow.rotated_code.rotation_block_size)
def rotation_block_size(count: Any) -> Any:
    """The block size for rotating ``count`` elements: a power of two, up to 2^20.

    It is the largest that needs at most ``count / 32`` zeros to fill the last block, but at least 128, or as
    few as hold all elements.
    """
    count = whole("count", count, 0)
    sizes = [2**i for i in range(_LARGEST.bit_length())]
    holding_all = next((size for size in sizes if size >= count), _LARGEST)
    cheap = max(size for size in sizes if -count % size <= count // _PADDING)
    return min(max(cheap, _SMALLEST), holding_all)


@also_on(tensors=lambda: _tensorflow.rotated_code.encode_rotated)
def encode_rotated(
    values: Any, key: Any, levels: Sequence[float], block_size: Any, *, lowering: str | None = None
) -> Array:
    """Rotates blocks of a vector at random, and quantizes every element to the nearest level.

    After the rotation the elements of any block are nearly normally distributed, with the root mean square of
    the block as their standard deviation. Levels are in units of that. (Vargaftik et al., "EDEN", ICML 2022,
    algorithm 1.)

    Args:
        values: ``[n]``, a floating dtype. In TensorFlow, NaN and infinity make a block that `decode_rotated`
            refuses.
        key: The key of the rotation, two integers.
        levels: The positive levels, ascending; their number is a power of two, at most 128. The others are
            their negatives.
        block_size: A power of two up to 2^20; at least 8 if there is more than one block. Integer scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The scales of the blocks, then the level numbers of the elements; a uint8 vector, whose length follows
        from n, dtype, levels and block size.

    Raises:
        ArgumentError: The levels or the block size are invalid.
        NonFiniteError: On NumPy arrays, a value is NaN or infinite.
    """
    block_size = whole("block_size", block_size)
    code = kernels.encode_rotated(values, _key(key), np.asarray(levels, np.float64), block_size)
    _require_finite(code, len(values), values.dtype, block_size)
    return code


def encode_on_device(
    xs: Sequence[DeviceArray], words: Any, levels: Sequence[float], head: bytes
) -> list[NDArray[np.uint8]]:
    """Encodes device arrays as `encode_rotated` does, in one call that waits once.

    Args:
        xs: Arrays on one device; a floating dtype.
        words: Two integers of 32 bits. The key of each array has the CRC-32 of its values XORed to the first.
        levels: See `encode_rotated`. The block size of each array is its `rotation_block_size`.
        head: Bytes that come before each key.

    Returns:
        ``head``, the 8 bytes of the key and the code of each array, on the host.

    Raises:
        ArgumentError: The levels are invalid.
        NonFiniteError: A value is NaN or infinite.
    """
    sizes = [rotation_block_size(x.size) for x in xs]
    codes = xs[0].backend.encode_rotated(xs, _key(words), levels, sizes, head)
    for code, x, size in zip(codes, xs, sizes, strict=True):
        _require_finite(code[len(head) + _KEY_BYTES :], x.size, x.dtype, size)
    return codes


@also_on(tensors=lambda: _tensorflow.rotated_code.decode_rotated)
def decode_rotated(
    code: Any,
    count: Any,
    key: Any,
    levels: Sequence[float],
    block_size: Any,
    *,
    dtype: Any,
    lowering: str | None = None,
) -> Array:
    """Decodes values from untrusted bytes that `encode_rotated` wrote, up to the quantization error.

    Args:
        code: uint8 vector.
        count: Number of values, below 2^31; integer scalar.
        key: The key of `encode_rotated`.
        levels: The levels of `encode_rotated`.
        block_size: The block size of `encode_rotated`.
        dtype: The dtype of the encoded values.
        lowering: See `fedplug.ops`.

    Returns:
        The finite values; an overflow becomes the largest number of the dtype. ``[count]``.

    Raises:
        ArgumentError: The levels or the block size are invalid.
        PayloadError: The bytes are not a code of ``count`` values. The decoder checks their number before it
            allocates memory.
    """
    count = whole("count", count)
    return kernels.decode_rotated(
        whole_numbers("code", code, np.uint8),
        count,
        _key(key),
        np.asarray(levels, np.float64),
        block_size,
        dtype=dtype,
        out=take_result(count, np.dtype(dtype)),
    )


def _require_finite(code: NDArray[np.uint8], count: int, dtype: Any, block_size: int) -> None:
    wide = wide_dtype(dtype)
    scales = code[: block_count(count, block_size) * wide.itemsize]
    require_finite(np.frombuffer(scales.tobytes(), wide), "the vector to rotate")


def _key(key: Any) -> tuple[int, int]:
    first, second = key
    return whole("key[0]", first), whole("key[1]", second)
