"""Quantized and packed values. docs/wire-format.md specifies the layouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array, DType, Scalar, ValueForm

__all__ = ["decode_values", "encode_values"]


@also_on(tensors=lambda: _tensorflow.value_code.encode_values)
def encode_values(
    values: Array,
    form: ValueForm,
    *,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
    lowering: str | None = None,
) -> Array:
    """Quantizes and packs a vector.

    Args:
        values: Finite values. ``[n]``, a floating dtype.
        form: The layout.
        bits: Bits per level, integer scalar: 2 to 8 for "qsgd" and "bfp", 1 to 8 for "codebook". Unused
            otherwise.
        block_size: Number of values that share a scale, a power of two up to 2^20; for "qsgd", "nearest" and
            "bfp" only.
        relative: The largest error of a value as a share of the range of all values, 2^-15 to 1/4, rounded to
            float32; for "bounded" only.
        seed: The seed of stochastic rounding in "qsgd", see `dither`. int64 scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The code; a uint8 vector, whose length follows from n, dtype and the other arguments.

    Raises:
        ArgumentError: An option is out of range.
        NonFiniteError: A value is NaN or infinite.
    """
    return kernels.encode_values(values, form, bits=bits, block_size=block_size, relative=relative, seed=seed)


def encode_on_device(
    xs: Sequence[DeviceArray],
    residuals: Sequence[Array | None] | None,
    form: ValueForm,
    *,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: int = 0,
) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
    """Encodes device arrays as `encode_values` does, in one call that waits once. Adds residuals if given.

    Args:
        xs: Arrays on one device; a floating dtype.
        residuals: An array of the `wide_dtype` for each array, on the device or the host. None for none. A
            sum is rounded to the dtype of its array.
        form: The layout. Any but "codebook" and "bounded".
        bits: See `encode_values`.
        block_size: See `encode_values`.
        relative: Unused.
        seed: See `encode_values`.

    Returns:
        The codes, on the host, and the next residuals, on the device: the sums minus the decoded values.
        No residuals if none were given.

    Raises:
        ArgumentError: An option is out of range, or there is no kernel for the form.
        NonFiniteError: A value or a sum is NaN or infinite.
    """
    return xs[0].backend.encode_values(
        xs,
        residuals,
        form,
        bits=whole("bits", bits),
        block_size=whole("block_size", block_size),
        seed=whole("seed", seed),
    )


@also_on(tensors=lambda: _tensorflow.value_code.decode_values)
def decode_values(
    code: Array,
    count: Array | int,
    form: ValueForm,
    *,
    dtype: DType,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    lowering: str | None = None,
) -> Array:
    """Decodes values from untrusted bytes.

    Args:
        code: uint8 vector.
        count: Number of values, below 2^31. Integer scalar.
        form: The layout.
        dtype: The dtype of the encoded values.
        bits: The bits of `encode_values`.
        block_size: The block size of `encode_values`.
        relative: The error bound of `encode_values`.
        lowering: See `fedplug.ops`.

    Returns:
        The finite values. ``[count]``.

    Raises:
        ArgumentError: An option is out of range.
        PayloadError: The bytes are not a code of ``count`` values. The decoder checks their number before it
            allocates memory.
    """
    count = whole("count", count)
    return kernels.decode_values(
        whole_numbers("code", code, np.uint8),
        count,
        form,
        dtype=dtype,
        bits=bits,
        block_size=block_size,
        relative=relative,
        out=take_result(count, np.dtype(dtype)),
    )
