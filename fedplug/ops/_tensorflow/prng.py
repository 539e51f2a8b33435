"""`fedplug.ops.prng` on tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._tensorflow.checksum import crc32
from fedplug.ops._tensorflow.serialization import to_bytes

__all__ = ["dither", "random_words", "round_seed", "shared_uniform"]


def round_seed(seed: Any, round_num: Any) -> tf.Tensor:
    high = tf.bitwise.left_shift(tf.cast(seed, tf.int64), tf.constant(32, tf.int64))
    return high + tf.cast(round_num, tf.int64)


def random_words(count: Any, first: Any, second: Any) -> tf.Tensor:
    return _philox(count, first, second, tf.int32, minval=None, maxval=None)


def shared_uniform(count: Any, seed: Any) -> tf.Tensor:
    return _philox(count, seed, tf.constant(0, tf.int64), tf.float64)


def dither(values: Any, seed: Any) -> tf.Tensor:
    return _philox(tf.size(values), seed, tf.cast(crc32(to_bytes(values)), tf.int64), tf.float32)


def _philox(count: Any, seed: Any, stream: Any, dtype: tf.DType, **range_: Any) -> tf.Tensor:
    # Without `alg`, TensorFlow chooses the generator by device.
    key = tf.stack([tf.cast(seed, tf.int64), tf.cast(stream, tf.int64)])
    return tf.random.stateless_uniform(tf.reshape(count, [1]), key, dtype=dtype, alg="philox", **range_)
