"""Quantized and packed values: the compiled ops. Must not know pipelines or what the values are for.

The layouts are specified in csrc/core/value_code.h. The twins are not here but in the quantizers of
`fedplug.encoders`, whose arithmetic in plain TensorFlow says what a form means.
"""

from __future__ import annotations

from typing import Any, Literal

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._checks import as_int64, require_floating, require_vectors

__all__ = ["ValueForm", "decode_values", "encode_values"]

ValueForm = Literal["float16", "bfloat16", "blockwise8", "qsgd", "terngrad", "sign"]

tf.no_gradient("Fedplug>EncodeValues")
tf.no_gradient("Fedplug>DecodeValues")


def encode_values(
    values: Any, form: ValueForm, *, bits: Any = 8, block_size: int = 256, seed: Any = 0
) -> tf.Tensor:
    """Quantizes and packs a vector.

    Args:
        values: Finite; shape ``[n]``, a floating dtype.
        form: The layout.
        bits: Of each level, 2 to 8; "qsgd" only; integer scalar.
        block_size: How many values share a scale, a power of two up to 2^20; "qsgd" and "blockwise8" only.
        seed: For the forms that round at random, "qsgd" and "terngrad": the first of the noise's two seeds,
            the other one being the CRC-32 of the values; int64 scalar.

    Returns:
        The bytes that travel; uint8 vector, whose length follows from n, dtype, form, bits and block size.

    Raises:
        TypeError, ValueError: The dtype is not floating, or a static rank is wrong.
        OpLibraryError: The op library cannot be loaded.
        tf.errors.InvalidArgumentError: When run: a value is NaN or infinite, or an option is out of range.
    """
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    require_vectors(values=values)
    return _loader.library().fedplug_encode_values(
        values, as_int64(seed), as_int64(bits), form=form, block_size=block_size
    )


def decode_values(
    code: Any, count: Any, form: ValueForm, *, dtype: Any, bits: Any = 8, block_size: int = 256
) -> tf.Tensor:
    """The inverse of `encode_values`, for bytes that nobody vouches for.

    Args:
        code: uint8 vector.
        count: How many values there must be, below 2^31; integer scalar.
        form: As for `encode_values`, and so ``bits`` and ``block_size``.
        dtype: That of the values that were encoded.
        bits: See ``form``.
        block_size: See ``form``.

    Returns:
        The values, finite; shape ``[count]``.

    Raises:
        ValueError: A static rank is wrong.
        OpLibraryError: The op library cannot be loaded.
        tf.errors.InvalidArgumentError: When run: these are not the bytes of ``count`` values, or an option is
            out of range. Memory is asked for only if the number of bytes is right.
    """
    code = tf.convert_to_tensor(code, tf.uint8)
    require_vectors(code=code)
    return _loader.library().fedplug_decode_values(
        code, as_int64(count), as_int64(bits), T=dtype, form=form, block_size=block_size
    )
