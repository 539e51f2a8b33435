"""`fedplug_eden.blocks` on tensors: graphs whose sizes may be unknown while they are built."""

from __future__ import annotations

import tensorflow as tf

from fedplug_eden.blocks import LARGEST, PADDING, SMALLEST

__all__ = ["block_size"]


def block_size(count: tf.Tensor) -> tf.Tensor:
    sizes = tf.constant([2**i for i in range(LARGEST.bit_length())], count.dtype)
    holding_all = tf.reduce_min(tf.where(sizes >= count, sizes, LARGEST))
    cheap = tf.reduce_max(tf.where(-count % sizes <= count // PADDING, sizes, 1))
    return tf.minimum(tf.maximum(cheap, SMALLEST), holding_all)
