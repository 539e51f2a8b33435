"""Random numbers with the same bits on any number of threads, SIMD level and device.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (Philox4x32-10).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops.checksum import crc32
from fedplug.ops.serialization import to_bytes

__all__ = ["dither", "round_seed", "shared_uniform"]


def round_seed(seed: Any, round_num: Any) -> tf.Tensor:
    """Seed and round in one, ``2^32 seed + round``; int64 scalar."""
    high = tf.bitwise.left_shift(tf.cast(seed, tf.int64), tf.constant(32, tf.int64))
    return high + tf.cast(round_num, tf.int64)


def shared_uniform(count: Any, seed: Any) -> tf.Tensor:
    """Uniform numbers in ``[0, 1)`` that all clients agree upon: they depend on the seed alone.

    Args:
        count: How many; integer scalar.
        seed: int64 scalar, see `round_seed`.

    Returns:
        float64 vector ``[count]``.
    """
    return _philox(count, seed, tf.constant(0, tf.int64), tf.float64)


def dither(values: Any, seed: Any) -> tf.Tensor:
    """Uniform numbers in ``[0, 1)`` for rounding ``values`` at random: other values, other numbers.

    An encoder is told neither which client nor which tensor it works for; were the numbers the same for all,
    their rounding errors would be too and would not average out. So the numbers depend on the checksum of the
    values as well as on the seed. (Updates that differ in a last bit, as those of two TensorFlow builds may,
    are therefore rounded at random in different ways.)

    Args:
        values: A vector of floats.
        seed: int64 scalar, see `round_seed`.

    Returns:
        float32 vector, one number per value.
    """
    return _philox(tf.size(values), seed, tf.cast(crc32(to_bytes(values)), tf.int64), tf.float32)


def _philox(count: Any, seed: Any, stream: Any, dtype: tf.DType) -> tf.Tensor:
    # TensorFlow would choose the generator by device, if it were not told.
    key = tf.stack([tf.cast(seed, tf.int64), stream])
    return tf.random.stateless_uniform(tf.reshape(count, [1]), key, dtype=dtype, alg="philox")
