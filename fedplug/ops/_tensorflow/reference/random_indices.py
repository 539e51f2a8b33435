"""The reference of `fedplug.ops.random_indices` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.prng import shared_uniform
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["draw_indices"]


@traced_once
def draw_indices(seed: tf.Tensor, count: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    valid = (count >= 0) & (count <= size) & (size < 2**31)
    with require(valid, "the count of random indices must be in [0, size], and size below 2^31"):
        count = tf.identity(count)
    begins = tf.range(count + 1) * size // tf.maximum(count, 1)
    lengths = begins[1:] - begins[:-1]
    noise = shared_uniform(count, seed)
    offsets = tf.cast(tf.floor(noise * tf.cast(lengths, tf.float64)), tf.int64)
    return tf.cast(begins[:-1] + tf.minimum(offsets, lengths - 1), tf.int32)
