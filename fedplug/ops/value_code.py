"""Quantized and packed values. The layouts are specified in csrc/core/value_code.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array, ValueForm

__all__ = ["decode_values", "encode_values"]


@also_on(tensors=lambda: _tensorflow.value_code.encode_values)
def encode_values(
    values: Any,
    form: ValueForm,
    *,
    bits: Any = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Any = 0,
    lowering: str | None = None,
) -> Array:
    """Quantizes and packs a vector.

    Args:
        values: Finite; shape ``[n]``, a floating dtype.
        form: The layout.
        bits: Of each level, integer scalar: 2 to 8 for "qsgd" and "bfp", 1 to 8 for "codebook"; others do
            not look.
        block_size: How many values share a scale, a power of two up to 2^20; "qsgd", "blockwise8" and
            "bfp" only.
        relative: The largest error of a value, as a share of the range of all of them, 2^-15 to 1/4;
            a number, rounded to float32. "bounded" only.
        seed: For the forms that round at random, "qsgd" and "terngrad": see `dither`; int64 scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The bytes that travel; uint8 vector, whose length follows from n, dtype and the other arguments.

    Raises:
        TypeError, ValueError: The dtype is not floating, or a static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: a value is NaN or infinite, or an option is out of range.
    """
    return kernels.encode_values(
        values, form, bits=int(bits), block_size=block_size, relative=relative, seed=int(seed)
    )


@also_on(tensors=lambda: _tensorflow.value_code.decode_values)
def decode_values(
    code: Any,
    count: Any,
    form: ValueForm,
    *,
    dtype: Any,
    bits: Any = 8,
    block_size: int = 256,
    relative: float = 0.01,
    lowering: str | None = None,
) -> Array:
    """The inverse of `encode_values`, for untrusted bytes.

    Args:
        code: uint8 vector.
        count: How many values there must be, below 2^31; integer scalar.
        form: As for `encode_values`, and so ``bits``, ``block_size`` and ``relative``.
        dtype: That of the values that were encoded.
        bits: See ``form``.
        block_size: See ``form``.
        relative: See ``form``.
        lowering: As for `encode_values`.

    Returns:
        The values, finite; shape ``[count]``.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: these are not the bytes of ``count`` values, or an option is
            out of range. Memory is asked for only if the number of bytes is right.
    """
    return kernels.decode_values(
        np.asarray(code, np.uint8),
        int(count),
        form,
        dtype=dtype,
        bits=int(bits),
        block_size=block_size,
        relative=relative,
        out=take_result(int(count), np.dtype(dtype)),
    )
