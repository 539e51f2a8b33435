"""The reference of `fedplug.ops.sparse_form` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["join", "split"]

_LONGEST_NUMBER = 5
_NUMBERS_END = 2**31


@traced_once
def join(count: tf.Tensor, index_code: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    numbers = tf.stack([count, tf.size(index_code, tf.int64)])
    with require(
        tf.reduce_all((numbers >= 0) & (numbers < _NUMBERS_END)),
        "a sparse payload has less than 2^31 entries and bytes of their index code",
    ):
        return tf.concat([_to_leb128(numbers), index_code, values], axis=0)


@traced_once
def split(body: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    head = tf.cast(body[: 2 * _LONGEST_NUMBER], tf.int64)
    is_last = head < 128
    ends = tf.where(is_last)[:2, 0] + 1
    starts = tf.concat([[0], ends[:-1]], axis=0)
    readable = tf.equal(tf.size(ends), 2) & tf.reduce_all(ends - starts <= _LONGEST_NUMBER)
    with require(readable, "the lengths in a sparse payload cannot be read"):
        end = ends[1]
    which = tf.cumsum(tf.cast(is_last, tf.int32), exclusive=True)[:end]
    place = tf.range(end) - tf.gather(starts, which)
    digits = head[:end] & 127
    numbers = tf.math.segment_sum(tf.bitwise.left_shift(digits, 7 * place), which)
    shortest = tf.reduce_all((digits > 0) | (place == 0) | ~is_last[:end]) & tf.reduce_all(
        numbers < _NUMBERS_END
    )
    with require(shortest, "the lengths in a sparse payload are not in their fewest bytes, or too large"):
        count, code_bytes = numbers[0], numbers[1]
    values_at = end + code_bytes
    fits = (count <= size) & (values_at <= tf.size(body, tf.int64))
    with require(fits, "the lengths in a sparse payload do not fit the payload or the tensor"):
        return tf.cast(count, tf.int32), body[end:values_at], body[values_at:]


def _to_leb128(numbers: tf.Tensor) -> tf.Tensor:
    """Writes each number of an int64 vector in the fewest bytes."""
    rests = tf.bitwise.right_shift(numbers[:, tf.newaxis], tf.range(0, 7 * _LONGEST_NUMBER, 7, tf.int64))
    more = tf.cast(rests >= 128, tf.int64) * 128
    used = (rests > 0) | (tf.range(_LONGEST_NUMBER) == 0)
    return tf.cast(tf.boolean_mask((rests & 127) | more, used), tf.uint8)
