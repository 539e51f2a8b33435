"""Sums and random numbers with the same bits on any number of threads, instruction set and device.

Knows TensorFlow; must not know any encoder.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import serialization

__all__ = [
    "dither",
    "mean_magnitude",
    "noise_seed",
    "normal_numbers",
    "shared_noise",
    "wide_dtype",
    "widened",
]


def wide_dtype(dtype: tf.DType) -> tf.DType:
    """The dtype for arithmetic with numbers of ``dtype``: float64 for float64, float32 for all others."""
    return tf.float64 if dtype == tf.float64 else tf.float32


def widened(x: tf.Tensor) -> tf.Tensor:
    """``x`` in its `wide_dtype`."""
    return tf.cast(x, wide_dtype(x.dtype))


def mean_magnitude(values: tf.Tensor) -> tf.Tensor:
    """The mean of ``|values|``, a vector; 0 for no values; a scalar of the same dtype.

    `tf.reduce_sum` orders its additions by threads and vector width. Here halves are added to halves, element
    by element, in float64. Scaling first keeps the largest finite numbers from overflowing; by the reciprocal
    count, as in graphs TensorFlow turns a division by a constant into that.
    """
    count = tf.maximum(tf.size(values), 1)
    parts = tf.abs(tf.cast(values, tf.float64)) * (1 / tf.cast(count, tf.float64))
    parts = tf.pad(parts, [[0, count - tf.size(values)]])

    def halve(parts: tf.Tensor) -> tuple[tf.Tensor]:
        half = (tf.size(parts) + 1) // 2
        parts = tf.pad(parts, [[0, tf.size(parts) % 2]])
        return (parts[:half] + parts[half:],)

    (total,) = tf.while_loop(
        lambda parts: tf.size(parts) > 1, halve, (parts,), shape_invariants=(tf.TensorShape([None]),)
    )
    largest = tf.cast(values.dtype.max, tf.float64)
    return tf.cast(tf.minimum(total[0], largest), values.dtype)


def shared_noise(count: tf.Tensor | int, seed: tf.Tensor | int, round_num: tf.Tensor) -> tf.Tensor:
    """Uniform numbers in ``[0, 1)`` that all clients agree upon: they depend on seed and round only.

    Args:
        count: How many.
        seed: From the encoder's configuration, integer scalar.
        round_num: int32 scalar.

    Returns:
        float64 vector ``[count]``.
    """
    return _philox(count, seed, round_num, tf.constant(0, tf.int64), tf.float64)


def dither(values: tf.Tensor, seed: int, round_num: tf.Tensor) -> tf.Tensor:
    """Uniform numbers in ``[0, 1)`` for rounding ``values``: other values, other numbers.

    An encoder is told neither which client nor which tensor it works for; were the numbers the same for all,
    their rounding errors would be too and would not average out. So the numbers depend on the checksum of the
    values as well as on seed and round. (Updates that differ in a last bit, as those of two TensorFlow builds
    may, are therefore rounded at random in different ways.)

    Args:
        values: A vector of floats.
        seed: From the encoder's configuration.
        round_num: int32 scalar.

    Returns:
        float32 vector, one number per value.
    """
    content = tf.cast(ops.crc32(serialization.to_bytes(values)), tf.int64)
    return _philox(tf.size(values), seed, round_num, content, tf.float32)


def noise_seed(seed: tf.Tensor | int, round_num: tf.Tensor) -> tf.Tensor:
    """Seed and round in one, ``2^32 seed + round``; int64 scalar. The generator takes two such seeds."""
    high = tf.bitwise.left_shift(tf.cast(seed, tf.int64), tf.constant(32, tf.int64))
    return high + tf.cast(round_num, tf.int64)


def _philox(
    count: tf.Tensor | int, seed: tf.Tensor | int, round_num: tf.Tensor, content: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
    # TensorFlow would choose the generator by device, if it were not told.
    key = tf.stack([noise_seed(seed, round_num), content])
    return tf.random.stateless_uniform(tf.reshape(count, [1]), key, dtype=dtype, alg="philox")


def normal_numbers(specs: Iterable[tf.TensorSpec]) -> list[tf.Tensor]:
    """Tensors to try an encoder with, always the same: normal numbers, or zeros where they are not floats."""

    def numbers(spec: tf.TensorSpec, seed: int) -> tf.Tensor:
        if not spec.dtype.is_floating:
            return tf.zeros(spec.shape, spec.dtype)
        return tf.cast(tf.random.stateless_normal(spec.shape, [seed, 0]), spec.dtype)

    return [numbers(spec, seed) for seed, spec in enumerate(specs)]
