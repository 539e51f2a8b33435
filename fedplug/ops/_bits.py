"""Numbers as bits, and bits as bytes, in plain TensorFlow: what the twins of the codes are made of.

Bits are int32 vectors of zeros and ones. Must not know any code.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["bits_of", "bytes_for", "numbers", "pack", "unpack"]


def bytes_for(bits: Any) -> Any:
    """How many bytes so many bits fill."""
    return (bits + 7) // 8


def bits_of(values: Any, width: Any) -> Any:
    """The ``width`` lowest bits of every int32, the lowest first."""
    return tf.reshape(tf.bitwise.right_shift(values[:, tf.newaxis], tf.range(width)) & 1, [-1])


def numbers(bits: Any, count: Any, width: Any) -> Any:
    """The inverse of `bits_of`, for ``count`` numbers; int32."""
    places = tf.range(tf.cast(width, tf.int32))
    return tf.reduce_sum(tf.bitwise.left_shift(tf.reshape(bits, [count, width]), places), 1)


def pack(bits: Any) -> Any:
    """Bits (int32) to bytes, least significant bit first; the last byte is filled up with zeros."""
    filled = tf.pad(bits, [[0, -tf.size(bits) % 8]])
    return tf.cast(tf.reduce_sum(tf.reshape(filled, [-1, 8]) * [1 << i for i in range(8)], 1), tf.uint8)


def unpack(code: Any) -> Any:
    """Bytes to bits (int32), least significant bit first."""
    return tf.reshape(tf.bitwise.right_shift(tf.cast(code, tf.int32)[:, tf.newaxis], tf.range(8)) & 1, [-1])
