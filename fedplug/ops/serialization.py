"""Tensors as little-endian bytes and back."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops.checks import require

__all__ = ["from_bytes", "to_bytes"]


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
