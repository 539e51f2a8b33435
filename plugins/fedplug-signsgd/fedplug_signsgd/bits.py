"""Booleans as bits, eight a byte, the first in the lowest bit. Must not know what they mean."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["pack", "packed_size", "unpack"]


def packed_size(count: int) -> int:
    """How many bytes `pack` needs for ``count`` booleans."""
    return -(-count // 8)


def pack(flags: tf.Tensor) -> tf.Tensor:
    """A bool vector ``[count]`` as a uint8 vector ``[packed_size(count)]``; bits not needed are 0."""
    rows = tf.reshape(tf.pad(flags, [[0, -tf.size(flags) % 8]]), [-1, 8])
    values = tf.bitwise.left_shift(tf.cast(rows, tf.uint8), _places())
    return tf.reduce_sum(values, axis=1)


def unpack(packed: tf.Tensor) -> tf.Tensor:
    """The inverse of `pack`, with the bits not needed: uint8 ``[size]`` as bool ``[8 * size]``."""
    values = tf.bitwise.right_shift(packed[:, tf.newaxis], _places())
    return tf.reshape(tf.bitwise.bitwise_and(values, 1) == 1, [-1])


def _places() -> tf.Tensor:
    return tf.constant([0, 1, 2, 3, 4, 5, 6, 7], tf.uint8)
