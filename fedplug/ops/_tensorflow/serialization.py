"""`fedplug.ops.serialization` on tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._tensorflow.checks import require

__all__ = ["from_bytes", "to_bytes", "varints_from_bytes", "varints_to_bytes"]

_VARINT_BYTES = 5


def to_bytes(x: tf.Tensor) -> tf.Tensor:
    if x.dtype == tf.bool:
        return tf.reshape(tf.cast(x, tf.uint8), [-1])
    return tf.reshape(tf.bitcast(tf.reshape(x, [-1]), tf.uint8), [-1])


def from_bytes(data: tf.Tensor, dtype: Any) -> tf.Tensor:
    dtype = tf.as_dtype(dtype)
    if dtype == tf.bool:
        with require(tf.reduce_all(data <= 1), "a bool on the wire is neither 0 nor 1"):
            return tf.cast(data, tf.bool)
    if dtype.size == 1:
        return tf.bitcast(data, dtype)
    with require(
        tf.size(data) % dtype.size == 0, f"the bytes on the wire are not whole {dtype.name} numbers"
    ):
        return tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)


def varints_to_bytes(numbers: tf.Tensor) -> tf.Tensor:
    rests = tf.bitwise.right_shift(numbers[:, tf.newaxis], tf.range(0, 7 * _VARINT_BYTES, 7))
    more = tf.cast(rests >= 128, tf.int32) * 128
    used = (rests > 0) | (tf.range(_VARINT_BYTES) == 0)
    return tf.cast(tf.boolean_mask((rests & 127) | more, used), tf.uint8)


def varints_from_bytes(data: tf.Tensor, count: int, what: str) -> tuple[list[tf.Tensor], tf.Tensor]:
    numbers = []
    for _ in range(count):
        head = tf.cast(data[:_VARINT_BYTES], tf.int64)
        length = tf.reduce_sum(tf.math.cumprod(tf.cast(head >= 128, tf.int32))) + 1
        with require(length <= tf.size(head), f"{what} cannot be read"):
            head = head[: tf.identity(length)]
        number = tf.reduce_sum(tf.bitwise.left_shift(head & 127, tf.range(0, 7 * tf.size(head), 7, tf.int64)))
        shortest = (tf.equal(length, 1) | (head[-1] > 0)) & (number < 2**31)
        with require(shortest, f"{what} are not in their fewest bytes, or too large"):
            numbers.append(tf.cast(number, tf.int32))
            data = data[length:]
    return numbers, data
