"""Values quantized after a random rotation. Method and layout are specified in csrc/core/rotated_code.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.block_scaling import block_count
from fedplug.ops.checks import require_finite
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.floats import wide_dtype
from fedplug.ops.types import Array

__all__ = ["decode_rotated", "encode_rotated", "rotation_block_size"]

_SMALLEST, _LARGEST, _PADDING = 2**7, 2**20, 32


@also_on(tensors=lambda: _tensorflow.rotated_code.rotation_block_size)
def rotation_block_size(count: Any) -> Any:
    """The block size for rotating ``count`` elements: a power of two, up to 2^20.

    It is the largest that needs at most ``count / 32`` zeros to fill the last block, but at least 128, or as
    few as hold all elements.
    """
    sizes = [2**i for i in range(_LARGEST.bit_length())]
    holding_all = next((size for size in sizes if size >= count), _LARGEST)
    cheap = max(size for size in sizes if -count % size <= count // _PADDING)
    return min(max(cheap, _SMALLEST), holding_all)


@also_on(tensors=lambda: _tensorflow.rotated_code.encode_rotated)
def encode_rotated(
    values: Any, key: Any, levels: Sequence[float], block_size: Any, *, lowering: str | None = None
) -> Array:
    """Rotates blocks of a vector at random, and takes every element to the nearest level.

    After the rotation the elements of a block are all but normally distributed, whatever they were, with its
    root mean square as their standard deviation; levels are in units of that. (Vargaftik et al., "EDEN",
    ICML 2022, algorithm 1.)

    Args:
        values: Shape ``[n]``, a floating dtype. A block with one that is NaN or infinite becomes bytes that
            `decode_rotated` refuses; with NumPy it is an error.
        key: Of the rotation, two integers.
        levels: The positive ones, ascending; as many as a power of two up to 128. The others are their
            negatives.
        block_size: A power of two up to 2^20; at least 8, where there is more than one block. Integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The bytes that travel: the scales of the blocks, then the number of the level of every element; uint8
        vector, whose length follows from n, dtype, levels and block size.

    Raises:
        TypeError, ValueError: The dtype is not floating, or a static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        NonFiniteError: With NumPy: a value is NaN or infinite.
        tf.errors.InvalidArgumentError: When run: levels or block size are not as above.
    """
    code = kernels.encode_rotated(values, _key(key), np.asarray(levels, np.float64), int(block_size))
    wide = wide_dtype(values.dtype)
    scales = code[: block_count(len(values), int(block_size)) * wide.itemsize].view(wide)
    require_finite(scales, "what is to be rotated")
    return code


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
    """The inverse of `encode_rotated`, up to the error of the levels, for untrusted bytes.

    Args:
        code: uint8 vector.
        count: How many values there must be, below 2^31; integer scalar.
        key: As for `encode_rotated`, and so ``levels`` and ``block_size``.
        levels: See ``key``.
        block_size: See ``key``.
        dtype: That of the values that were encoded.
        lowering: As for `encode_rotated`.

    Returns:
        The values, finite; what is too large for the dtype is its largest number. Shape ``[count]``.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: these are not the bytes of ``count`` values, or levels or
            block size are not as above. Memory is asked for only if the number of bytes is right.
    """
    return kernels.decode_rotated(
        np.asarray(code, np.uint8),
        int(count),
        _key(key),
        np.asarray(levels, np.float64),
        int(block_size),
        dtype=dtype,
        out=take_result(int(count), np.dtype(dtype)),
    )


def _key(key: Any) -> tuple[int, int]:
    first, second = key
    return int(first), int(second)
