"""Numbers of one to eight bits, and single bits, packed without gaps. Must not know what they mean.

Eight numbers of b bits are exactly b bytes, and fit one 64-bit integer: the unit everything here works in.
The first number is in the lowest bits; bits that are not needed are 0.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.encoders.checks import of_length, require

__all__ = ["pack", "packed_size", "unpack"]


def packed_size(count: tf.Tensor | int, bits: int) -> tf.Tensor | int:
    """How many bytes `pack` writes for ``count`` numbers: ``ceil(count * bits / 8)``."""
    return count // 8 * bits + (count % 8 * bits + 7) // 8  # never larger than the result: no overflow


def pack(codes: tf.Tensor, bits: int) -> tf.Tensor:
    """Numbers below ``2^bits``, a uint8 vector ``[n]``, as a uint8 vector ``[packed_size(n, bits)]``."""
    if bits == 8:
        return codes
    count = tf.size(codes)
    groups = tf.reshape(tf.pad(codes, [[0, -count % 8]]), [-1, 8])
    words = tf.reduce_sum(tf.bitwise.left_shift(tf.cast(groups, tf.int64), _places(bits)), axis=1)
    filled = tf.reshape(tf.bitcast(words, tf.uint8)[:, :bits], [-1])
    return filled[: packed_size(count, bits)]


def unpack(data: tf.Tensor, count: tf.Tensor | int, bits: int, what: str) -> tf.Tensor:
    """The inverse of `pack`, for bytes that nobody vouches for.

    Args:
        data: uint8 vector.
        count: How many numbers there must be.
        bits: Of each number, 1 to 8.
        what: Names the bytes in an error.

    Raises:
        tf.errors.InvalidArgumentError: Not ``packed_size(count, bits)`` bytes, or unused bits are set.
    """
    data = of_length(data, packed_size(count, bits), what)
    if bits == 8:
        return data
    groups = tf.reshape(tf.pad(data, [[0, -tf.size(data) % bits]]), [-1, bits])
    words = tf.bitcast(tf.pad(groups, [[0, 0], [0, 8 - bits]]), tf.int64)
    codes = tf.bitwise.right_shift(words[:, tf.newaxis], _places(bits)) & (2**bits - 1)
    codes = tf.reshape(tf.cast(codes, tf.uint8), [-1])
    with require(tf.reduce_all(codes[count:] == 0), f"{what} have unused bits that are set"):
        return tf.identity(codes[:count])


def _places(bits: int) -> tf.Tensor:
    return tf.range(0, 8 * bits, bits, dtype=tf.int64)
