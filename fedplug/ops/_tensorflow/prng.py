"""`fedplug.ops.prng` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import as_int64
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.serialization import crc32, to_bytes
from fedplug.ops.types import Scalar


def round_seed(seed: Scalar, round_num: Scalar) -> tf.Tensor:
    high = tf.bitwise.left_shift(_of_32_bits("seed", seed), tf.constant(32, tf.int64))
    return high + _of_32_bits("round_num", round_num)


def random_words(count: Scalar, first: Scalar, second: Scalar) -> tf.Tensor:
    key = as_int64("first", first), as_int64("second", second)
    return _philox(count, *key, tf.int32, minval=None, maxval=None)


def shared_uniform(count: Scalar, seed: Scalar) -> tf.Tensor:
    return _philox(count, as_int64("seed", seed), tf.constant(0, tf.int64), tf.float64)


def dither(values: tf.Tensor, seed: Scalar) -> tf.Tensor:
    stream = tf.cast(crc32(to_bytes(values)), tf.int64)
    return _philox(tf.size(values), as_int64("seed", seed), stream, tf.float32)


def _of_32_bits(name: str, value: tf.Tensor) -> tf.Tensor:
    wide = as_int64(name, value)
    if tf.is_tensor(value) and value.dtype.size < wide.dtype.size:
        return wide
    fits = tf.equal(tf.cast(tf.cast(wide, tf.int32), tf.int64), wide)
    with require(fits, f"{name} is not a whole number of 32 bits with its sign"):
        return tf.identity(wide)


def _philox(
    count: Scalar, seed: Scalar, stream: tf.Tensor, dtype: tf.DType, **range_: tf.Tensor
) -> tf.Tensor:
    # Without `alg`, TensorFlow chooses the generator by device.
    key = tf.stack([seed, stream])
    shape = tf.reshape(as_int64("count", count), [1])
    return tf.random.stateless_uniform(shape, key, dtype=dtype, alg="philox", **range_)
