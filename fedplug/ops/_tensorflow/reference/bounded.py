"""The form "bounded" of `value_code`. csrc/core/value_code.h specifies its steps."""

from __future__ import annotations

import struct
from typing import NamedTuple

import tensorflow as tf

from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.packing import pack, packed_size, unpack
from fedplug.ops._tensorflow.reference.codebook import power_below, power_of_two
from fedplug.ops._tensorflow.reference.topk import magnitude_bits
from fedplug.ops._tensorflow.serialization import from_bytes, to_bytes
from fedplug.ops._tensorflow.spec import widened

__all__ = ["decode", "encode"]

_HEADER_BYTES = 4
_LEAST, _MOST = 2.0**-15, 0.25
_SIGNIFICAND = {tf.float16: 11, tf.bfloat16: 8, tf.float32: 24, tf.float64: 53}
_SMALLEST = {tf.float16: -24, tf.bfloat16: -133, tf.float32: -149, tf.float64: -1074}


class _Multiples(NamedTuple):
    scale: tf.Tensor
    unscale: tf.Tensor
    step: tf.Tensor
    per_step: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


def encode(values: tf.Tensor, relative: float) -> tf.Tensor:
    """Encodes finite values."""
    header = _header(relative)
    (share,) = struct.unpack("<f", header)
    wide = tf.cast(values, tf.float64)
    some = tf.size(values) > 0
    extremes = [tf.where(some, f(wide), 0.0) for f in (tf.reduce_min, tf.reduce_max)]
    extremes = [tf.where(tf.equal(extreme, 0.0), tf.zeros_like(extreme), extreme) for extreme in extremes]
    lowest, highest = extremes
    steps = _multiples(lowest, highest, share, values.dtype)
    multiple = tf.round(steps.scale * wide * steps.per_step)
    levels = tf.cast(multiple - steps.first, tf.int64)
    low_bits, high_bits = _bits(share)
    low, high = tf.bitwise.bitwise_and(levels, 2**low_bits - 1), tf.bitwise.right_shift(levels, low_bits)
    planes = [pack(tf.cast(low, tf.uint8), low_bits)] if low_bits else []
    return tf.concat(
        [
            tf.constant(list(header), tf.uint8),
            *(
                to_bytes(tf.cast(tf.cast(extreme, _wide(values.dtype)), values.dtype)[tf.newaxis])
                for extreme in extremes
            ),
            *planes,
            pack(tf.cast(high, tf.uint8), high_bits),
        ],
        axis=0,
    )


def decode(code: tf.Tensor, count: tf.Tensor, relative: float, dtype: tf.DType) -> tf.Tensor:
    """Decodes ``count`` values. Refuses bytes that `encode` does not write."""
    header = _header(relative)
    (share,) = struct.unpack("<f", header)
    low_bits, high_bits = _bits(share)
    low_at = _HEADER_BYTES + 2 * dtype.size
    high_at = low_at + packed_size(count, low_bits)
    enough = tf.size(code, tf.int64) >= high_at
    with require(enough, "a bounded payload is too short to hold its extremes and low bits"):
        code = tf.identity(code)
    same = tf.reduce_all(code[:_HEADER_BYTES] == list(header))
    with require(same, f"a bounded payload was not made with relative={relative}"):
        extremes = from_bytes(code[_HEADER_BYTES:low_at], dtype)
    # By their bits, because TensorFlow's arithmetic takes denormal numbers for 0.
    negative = code[_HEADER_BYTES + dtype.size - 1 : low_at : dtype.size] >= 0x80
    magnitude = tf.cast(magnitude_bits(extremes), tf.int64)
    minus_zero = tf.reduce_any(negative & (magnitude == 0))
    keys = tf.where(negative, -magnitude, magnitude)
    known = tf.reduce_all(tf.math.is_finite(extremes)) & ~minus_zero & (keys[0] <= keys[1])
    with require(known, "the extremes of a bounded payload are none"):
        lowest, highest = tf.unstack(tf.cast(extremes, tf.float64), num=2)
    levels = tf.cast(unpack(code[high_at:], count, high_bits, "the levels of a bounded payload"), tf.int64)
    if low_bits:
        low = unpack(code[low_at:high_at], count, low_bits, "the low bits of a bounded payload")
        levels = tf.bitwise.left_shift(levels, low_bits) + tf.cast(low, tf.int64)
    steps = _multiples(lowest, highest, share, dtype)
    within = tf.reduce_all(levels <= steps.last)
    with require(within, "the levels of a bounded payload hold one that does not exist"):
        levels = tf.identity(levels)
    multiple = steps.first + tf.cast(levels, tf.float64)
    values = tf.minimum(tf.maximum(multiple * steps.step * steps.unscale, lowest), highest)
    return tf.cast(tf.cast(values, _wide(dtype)), dtype)


def _multiples(lowest: tf.Tensor, highest: tf.Tensor, share: float, dtype: tf.DType) -> _Multiples:
    largest = tf.maximum(tf.abs(lowest), tf.abs(highest))
    power = -power_below(largest)
    scale = power_of_two(power)
    of_largest = 1.25 / 2 ** (_SIGNIFICAND[dtype] - 1) + 2.0**-49
    of_smallest = power_of_two(tf.maximum(power + _SMALLEST[dtype] + 1, -1022))
    rounded_off = scale * largest * of_largest + of_smallest
    widest = (scale * highest - scale * lowest) * (2 * share * (1 - 2.0**-50))
    step = tf.maximum(widest - rounded_off, _power_of_two_below(widest))
    per_step = tf.math.divide_no_nan(tf.ones_like(step), step)
    first = tf.round(scale * lowest * per_step)
    last = tf.cast(tf.round(scale * highest * per_step) - first, tf.int64)
    return _Multiples(scale, power_of_two(-power), step, per_step, first, last)


def _power_of_two_below(x: tf.Tensor) -> tf.Tensor:
    """The largest power of two that is not above x, or 0 for 0; x is 0 or a normal number."""
    return tf.bitcast(tf.bitwise.bitwise_and(tf.bitcast(x, tf.int64), 0x7FF0000000000000), tf.float64)


def _header(relative: float) -> bytes:
    header = struct.pack("<f", relative)
    (share,) = struct.unpack("<f", header)
    if not _LEAST <= share <= _MOST:
        raise tf.errors.InvalidArgumentError(None, None, f"relative = {relative} is not in [2^-15, 1/4]")
    return header


def _bits(share: float) -> tuple[int, int]:
    """Splits the bits of a level into those that are written first and the others."""
    bits = (int(1 / share) + 2).bit_length()
    return max(0, bits - 8), min(8, bits)


def _wide(dtype: tf.DType) -> tf.DType:
    """Converts through float32, because all implementations round 16-bit numbers from it."""
    return widened(tf.zeros([], dtype)).dtype
