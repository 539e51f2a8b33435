"""`fedplug_eden.hadamard` on tensors: graphs whose sizes may be unknown while they are built."""

from __future__ import annotations

import tensorflow as tf

from fedplug import ops
from fedplug_eden.hadamard import LARGEST, PADDING, SMALLEST

__all__ = ["block_size", "random_signs", "row_sums", "transform"]


def block_size(count: tf.Tensor) -> tf.Tensor:
    sizes = tf.constant([2**i for i in range(LARGEST.bit_length())], count.dtype)
    holding_all = tf.reduce_min(tf.where(sizes >= count, sizes, LARGEST))
    cheap = tf.reduce_max(tf.where(-count % sizes <= count // PADDING, sizes, 1))
    return tf.minimum(tf.maximum(cheap, SMALLEST), holding_all)


def random_signs(count: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    words = ops.random_words((count + 31) // 32, key[0], key[1])
    bits = tf.bitwise.right_shift(words[:, tf.newaxis], tf.range(32)) & 1
    return tf.cast(1 - 2 * tf.reshape(bits, [-1])[:count], tf.float32)


def transform(rows: tf.Tensor) -> tf.Tensor:
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
    (sums,) = tf.while_loop(
        lambda rows: tf.shape(rows)[1] > 1,
        lambda rows: (rows[:, : tf.shape(rows)[1] // 2] + rows[:, tf.shape(rows)[1] // 2 :],),
        (rows,),
        shape_invariants=(tf.TensorShape([None, None]),),
    )
    return sums[:, 0]
