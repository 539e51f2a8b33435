"""The form "bfp" of `value_code`. csrc/core/value_code.h specifies its steps."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.arrays import saturate_cast
from fedplug.ops._tensorflow.block_scaling import block_count, block_scales
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.packing import pack, unpack
from fedplug.ops._tensorflow.serialization import from_bytes, to_bytes
from fedplug.ops._tensorflow.spec import wide_dtype, widened

__all__ = ["decode", "encode"]

_HEADER_BYTES = 2
_EXPONENTS = {
    tf.float16: (-24, 15),
    tf.bfloat16: (-125, 127),
    tf.float32: (-125, 127),
    tf.float64: (-1021, 1023),
}


def encode(values: tf.Tensor, bits: tf.Tensor, largest: tf.Tensor, block_size: int) -> tf.Tensor:
    """Encodes finite values. ``largest`` is the highest level."""
    lowest, highest = _EXPONENTS[values.dtype]
    powers = [2.0**exponent for exponent in range(lowest, highest)]
    ends = (tf.cast(largest, tf.float64) + 0.5) * tf.constant(powers, tf.float64)
    places = tf.searchsorted(ends, tf.cast(block_scales(values, block_size), tf.float64))
    steps = _of_each(places, tf.size(values), values.dtype, block_size)
    whole = tf.cast(largest, steps.dtype)
    levels = tf.clip_by_value(tf.round(widened(values) / steps), -whole, whole)
    packed = pack(tf.cast(levels + whole, tf.uint8), bits)
    return tf.concat(
        [_header(bits, block_size), to_bytes(tf.cast(places + lowest, tf.int16)), packed], axis=0
    )


def decode(
    code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, largest: tf.Tensor, dtype: tf.DType, block_size: int
) -> tf.Tensor:
    """Decodes ``count`` values. Refuses bytes that `encode` does not write."""
    levels_at = _HEADER_BYTES + block_count(count, block_size) * tf.int16.size
    enough = tf.size(code, tf.int64) >= levels_at
    with require(enough, "a bfp payload is too short to hold its exponents"):
        code = tf.identity(code)
    same = tf.reduce_all(code[:_HEADER_BYTES] == _header(bits, block_size))
    with require(same, f"a bfp payload was not made with these bits and block_size={block_size}"):
        exponents = from_bytes(code[_HEADER_BYTES:levels_at], tf.int16)
    lowest, highest = _EXPONENTS[dtype]
    valid = tf.reduce_all((exponents >= lowest) & (exponents <= highest))
    with require(valid, "an exponent of a bfp payload is out of range"):
        places = tf.cast(exponents, tf.int32) - lowest
    levels = tf.cast(unpack(code[levels_at:], count, bits, "the levels of a bfp payload"), tf.int64)
    with require(tf.reduce_all(levels <= 2 * largest), "a level of a bfp payload is too large"):
        levels = tf.cast(levels - largest, wide_dtype(dtype))
    return saturate_cast(levels * _of_each(places, count, dtype, block_size), dtype)


def _header(bits: tf.Tensor, block_size: int) -> tf.Tensor:
    return tf.cast(tf.stack([bits, tf.constant(block_size.bit_length() - 1, tf.int64)]), tf.uint8)


def _of_each(places: tf.Tensor, count: tf.Tensor, dtype: tf.DType, block_size: int) -> tf.Tensor:
    """The step of every element. ``places`` index the exponents of the dtype, one for each block."""
    lowest, highest = _EXPONENTS[dtype]
    powers = tf.constant([2.0**exponent for exponent in range(lowest, highest + 1)], wide_dtype(dtype))
    return tf.repeat(tf.gather(powers, places), block_size)[:count]
