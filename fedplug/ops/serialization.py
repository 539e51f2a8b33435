"""Tensors as little-endian bytes and back, and numbers as LEB128."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops.checks import require

__all__ = ["from_bytes", "to_bytes", "varints_from_bytes", "varints_to_bytes"]

_VARINT_BYTES = 5


def to_bytes(x: tf.Tensor) -> tf.Tensor:
    """The elements in row-major order, little-endian: a uint8 vector of ``size * itemsize`` bytes."""
    if x.dtype == tf.bool:
        return tf.reshape(tf.cast(x, tf.uint8), [-1])
    return tf.reshape(tf.bitcast(tf.reshape(x, [-1]), tf.uint8), [-1])


def from_bytes(data: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The inverse of `to_bytes`, as a vector.

    Raises:
        tf.errors.InvalidArgumentError: The number of bytes is no multiple of the item size, or a bool is not
        0 or 1.
    """
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
    """Numbers in LEB128: seven bits a byte, the lowest first, the high bit set on all bytes but the last.

    Args:
        numbers: int32 vector ``[n]``, none below 0.

    Returns:
        uint8 vector, each number in the fewest bytes that hold it, one to five.
    """
    rests = tf.bitwise.right_shift(numbers[:, tf.newaxis], tf.range(0, 7 * _VARINT_BYTES, 7))
    more = tf.cast(rests >= 128, tf.int32) * 128
    used = (rests > 0) | (tf.range(_VARINT_BYTES) == 0)
    return tf.cast(tf.boolean_mask((rests & 127) | more, used), tf.uint8)


def varints_from_bytes(data: tf.Tensor, count: int, what: str) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The first ``count`` numbers of `varints_to_bytes`, and the bytes after them, from untrusted bytes.

    Args:
        data: uint8 vector.
        count: How many numbers there must be.
        what: Names them in an error.

    Returns:
        int32 scalars, none below 0, and a uint8 vector.

    Raises:
        tf.errors.InvalidArgumentError: The bytes end before the numbers do, or a number is 2^31 or more, or
            not in its fewest bytes.
    """
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
