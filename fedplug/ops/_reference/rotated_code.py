"""The reference of `fedplug.ops.rotated_code` in stock TensorFlow ops.

csrc/core/rotated_code.h specifies method, order of additions and layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import tensorflow as tf

from fedplug.ops._reference.traced import traced_once
from fedplug.ops._tensorflow.arrays import saturate_cast
from fedplug.ops._tensorflow.block_scaling import block_count, scales_from_bytes
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.floats import wide_dtype, widened
from fedplug.ops._tensorflow.packing import pack, unpack
from fedplug.ops._tensorflow.prng import random_words
from fedplug.ops._tensorflow.serialization import to_bytes

__all__ = ["decode", "encode"]

_LARGEST_BLOCK = 2**20
_MOST_LEVELS = 128
_LARGEST_LEVEL = 1e6


@traced_once
def encode(values: Any, key: Any, levels: Sequence[float], block_size: Any) -> tf.Tensor:
    block_size = _checked(tf.size(values, tf.int64), levels, block_size)
    wide = widened(values)
    rows = tf.reshape(tf.pad(wide, [[0, -tf.size(wide, tf.int64) % block_size]]), [-1, block_size])
    finite = tf.reduce_all(tf.math.is_finite(rows), axis=1)
    rows = tf.where(finite[:, tf.newaxis], rows, 0)
    peaks = tf.reduce_max(tf.abs(rows), axis=1)
    rows = tf.math.divide_no_nan(rows, peaks[:, tf.newaxis])  # keeps the squares from overflowing
    rotated = _transform(rows * _signs(rows, key))
    squares = _row_sums(rows * rows)
    normal = tf.math.divide_no_nan(rotated, tf.sqrt(squares)[:, tf.newaxis])
    codes = tf.searchsorted(tf.constant(_borders(levels), rows.dtype), tf.reshape(normal, [-1]))
    products = _row_sums(rotated * tf.reshape(_of_codes(codes, levels, rows.dtype), tf.shape(rows)))
    scales = saturate_cast(tf.math.divide_no_nan(squares, products) * peaks, rows.dtype)
    scales = tf.where(finite, scales, float("nan"))
    return tf.concat([to_bytes(scales), pack(tf.cast(codes, tf.uint8), _bits(levels))], axis=0)


@traced_once
def decode(
    code: Any, count: Any, key: Any, levels: Sequence[float], block_size: Any, dtype: tf.DType
) -> tf.Tensor:
    block_size = _checked(count, levels, block_size)
    blocks = block_count(count, block_size)
    codes_at = blocks * wide_dtype(dtype).size
    with require(tf.size(code, tf.int64) >= codes_at, "a rotated code is too short to hold its scales"):
        code = tf.identity(code)
    scales = scales_from_bytes(code[:codes_at], wide_dtype(dtype), "a rotated code")
    codes = unpack(code[codes_at:], blocks * block_size, _bits(levels), "the codes of a rotated code")
    rows = tf.reshape(_of_codes(codes, levels, scales.dtype), [blocks, block_size])
    rotated = _transform(rows)
    scaled = rotated * _signs(rotated, key) * scales[:, tf.newaxis]
    return saturate_cast(tf.reshape(scaled, [-1])[:count], dtype)


def _checked(count: Any, levels: Sequence[float], block_size: Any) -> tf.Tensor:
    """Returns the block size after checking all arguments."""
    number = len(levels)
    ascending = all(left < right for left, right in pairwise([0.0, *levels]))
    if not ascending or not 1 <= number <= _MOST_LEVELS or number & (number - 1):
        raise tf.errors.InvalidArgumentError(
            None, None, "levels do not ascend from 0, or are not as many as a power of two up to 128"
        )
    if levels[-1] > _LARGEST_LEVEL:
        raise tf.errors.InvalidArgumentError(None, None, "a level is above 1e6")
    valid = (count >= 0) & (count < 2**31)
    valid &= (block_size >= 1) & (block_size <= _LARGEST_BLOCK)
    valid &= tf.equal(tf.bitwise.bitwise_and(block_size, block_size - 1), 0)
    valid &= (block_size >= 8) | (count <= block_size)
    with require(valid, "count is not in [0, 2^31), or block_size no power of two from 8 to 2^20"):
        return tf.identity(block_size)


def _bits(levels: Sequence[float]) -> int:
    return len(levels).bit_length()


def _all(levels: Sequence[float]) -> list[float]:
    return [-level for level in reversed(levels)] + list(levels)


def _borders(levels: Sequence[float]) -> list[float]:
    return [(left + right) / 2 for left, right in pairwise(_all(levels))]


def _of_codes(codes: Any, levels: Sequence[float], dtype: tf.DType) -> tf.Tensor:
    return tf.gather(tf.constant(_all(levels), dtype), tf.cast(codes, tf.int32))


def _signs(rows: Any, key: Any) -> tf.Tensor:
    """1 or -1 for every element, from the key."""
    count = tf.size(rows)
    words = random_words((count + 31) // 32, key[0], key[1])
    bits = tf.bitwise.right_shift(words[:, tf.newaxis], tf.range(32)) & 1
    return tf.cast(tf.reshape(1 - 2 * tf.reshape(bits, [-1])[:count], tf.shape(rows)), rows.dtype)


def _transform(rows: Any) -> tf.Tensor:
    """Multiplies each row by the Hadamard matrix with entries 1 and -1."""
    shape = tf.shape(rows)

    def butterfly(half: tf.Tensor, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pairs = tf.reshape(flat, [-1, 2, half])
        left, right = pairs[:, 0], pairs[:, 1]
        return 2 * half, tf.reshape(tf.stack([left + right, left - right], axis=1), [-1])

    _, flat = tf.while_loop(
        lambda half, _: half < shape[1],
        butterfly,
        (tf.constant(1), tf.reshape(rows, [-1])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    return tf.reshape(flat, shape)


def _row_sums(rows: Any) -> tf.Tensor:
    """Sums each row, adding right halves to left halves."""
    (sums,) = tf.while_loop(
        lambda rows: tf.shape(rows)[1] > 1,
        lambda rows: (rows[:, : tf.shape(rows)[1] // 2] + rows[:, tf.shape(rows)[1] // 2 :],),
        (rows,),
        shape_invariants=(tf.TensorShape([None, None]),),
    )
    return sums[:, 0]
