"""The randomized Hadamard transform of a vector in blocks. Must not know what is done with the result.

Additions only, in an order of their own, so that the bits do not depend on threads or device.
"""

from __future__ import annotations

import tensorflow as tf

__all__ = ["block_size", "random_signs", "row_sums", "transform"]

_SMALLEST, _LARGEST = 2**7, 2**20
_PADDING = 32


def block_size(count: tf.Tensor | int) -> tf.Tensor:
    """How long the blocks are into which ``count`` elements are divided: a power of two, int32 scalar.

    The largest, up to 2^20, that needs no more than ``count / 32`` zeros to fill the last block; but at least
    128, or as few as hold all elements.
    """
    sizes = tf.constant([2**i for i in range(_LARGEST.bit_length())])
    count = tf.cast(count, tf.int32)
    holding_all = tf.reduce_min(tf.where(sizes >= count, sizes, _LARGEST))
    cheap = tf.reduce_max(tf.where(-count % sizes <= count // _PADDING, sizes, 1))
    return tf.minimum(tf.maximum(cheap, _SMALLEST), holding_all)


def random_signs(count: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """``count`` times 1 or -1, float32, from a key of two int32."""
    words = tf.random.stateless_uniform(
        [(count + 31) // 32], key, minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    bits = tf.bitwise.right_shift(words[:, tf.newaxis], tf.range(32)) & 1
    return tf.cast(1 - 2 * tf.reshape(bits, [-1])[:count], tf.float32)


def transform(rows: tf.Tensor) -> tf.Tensor:
    """``H`` times each row, where ``H`` has entries 1 and -1 and ``H H = n I``; n is a power of two."""
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


def row_sums(rows: tf.Tensor) -> tf.Tensor:
    """The sum of each row, of a power of two of elements: right halves are added to left halves."""
    (sums,) = tf.while_loop(
        lambda rows: tf.shape(rows)[1] > 1,
        lambda rows: (rows[:, : tf.shape(rows)[1] // 2] + rows[:, tf.shape(rows)[1] // 2 :],),
        (rows,),
        shape_invariants=(tf.TensorShape([None, None]),),
    )
    return sums[:, 0]
