"""`fedplug.ops.packing` on tensors, and packing of wider numbers for the references.

Eight numbers of b bits, b up to 8, are exactly b bytes and fit a 64-bit integer. `pack` and `unpack` use
these groups.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow.arguments import as_bytes, as_int64, require_whole
from fedplug.ops._tensorflow.checks import of_length, require


def packed_size(count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    require_whole(count=count)
    require_whole(bits=bits)
    return count // 8 * bits + (count % 8 * bits + 7) // 8  # no step exceeds the result, so none overflows


def pack(codes: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    codes, bits = as_bytes("codes", codes), _checked_bits(bits)
    count = tf.size(codes, tf.int64)
    largest = tf.bitwise.left_shift(tf.constant(1, tf.int64), tf.cast(bits, tf.int64)) - 1
    fits = tf.reduce_all(tf.cast(codes, tf.int64) <= largest)
    with require(fits, "a number to pack has more bits than it may have"):
        codes = tf.identity(codes)
    groups = tf.reshape(tf.pad(codes, [[0, -count % 8]]), [-1, 8])
    words = tf.reduce_sum(tf.bitwise.left_shift(tf.cast(groups, tf.int64), _places(bits)), axis=1)
    filled = tf.reshape(tf.bitcast(words, tf.uint8)[:, :bits], [-1])
    return filled[: packed_size(count, bits)]


def unpack_all(data: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Unpacks all numbers in the bytes, including those of the unused bits."""
    groups = tf.reshape(tf.pad(data, [[0, -tf.size(data, tf.int64) % bits]]), [-1, bits])
    words = tf.bitcast(tf.pad(groups, [[0, 0], [0, 8 - bits]]), tf.int64)
    codes = tf.bitwise.right_shift(words[:, tf.newaxis], _places(bits)) & (
        tf.bitwise.left_shift(tf.constant(1, tf.int64), tf.cast(bits, tf.int64)) - 1
    )
    return tf.reshape(tf.cast(codes, tf.uint8), [-1])


def unpack(data: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, what: str) -> tf.Tensor:
    data, bits = as_bytes("data", data), _checked_bits(bits)
    codes = unpack_all(of_length(data, packed_size(count, bits), what), bits)
    unused = tf.reduce_all(tf.equal(codes[count:], 0)) & (count >= 0)
    with require(unused, f"{what} have unused bits that are set, or their number is negative"):
        return tf.identity(codes[:count])


def bits_of(values: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """The ``width`` lowest bits of every int32, the lowest first. uint8 vector, for any width."""
    bits = tf.bitwise.right_shift(values[:, tf.newaxis], tf.range(width)) & 1
    return tf.cast(tf.reshape(bits, [-1]), tf.uint8)


def numbers(bits: tf.Tensor, count: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Inverts `bits_of`, for ``count`` numbers. int32."""
    places = tf.range(tf.cast(width, tf.int32))
    rows = tf.cast(tf.reshape(bits, [count, width]), tf.int32)
    return tf.reduce_sum(tf.bitwise.left_shift(rows, places), 1)


def _checked_bits(bits: tf.Tensor) -> tf.Tensor:
    if not tf.is_tensor(bits):
        return whole("bits", bits, 1, 8)
    bits = as_int64("bits", bits)
    with require((bits >= 1) & (bits <= 8), "bits is not from 1 to 8"):
        return tf.identity(bits)


def _places(bits: tf.Tensor) -> tf.Tensor:
    return tf.range(0, 8 * bits, bits, dtype=tf.int64)
