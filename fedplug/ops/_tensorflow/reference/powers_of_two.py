"""Powers of two that scale float64 numbers exactly. See csrc/core/codes/values/level.h."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["largest_magnitude", "power_below", "power_of_two"]

_EXPONENT_AT = 52
_EXPONENT_BIAS = 1023


def largest_magnitude(values: tf.Tensor) -> tf.Tensor:
    """The largest magnitude of a vector, float64 scalar; 0 for an empty vector."""
    largest = tf.reduce_max(tf.abs(tf.cast(values, tf.float64)))
    return tf.where(tf.size(values) > 0, largest, tf.zeros_like(largest))  # -infinity if empty


def power_below(magnitude: tf.Tensor) -> tf.Tensor:
    """The p with 2^p <= magnitude < 2^(p + 1), within [-1022, 1022]; int64 scalar for a float64 scalar."""
    exponent = tf.bitwise.right_shift(tf.bitcast(magnitude, tf.int64), _EXPONENT_AT) - _EXPONENT_BIAS
    return tf.clip_by_value(exponent, 1 - _EXPONENT_BIAS, _EXPONENT_BIAS - 1)


def power_of_two(power: tf.Tensor) -> tf.Tensor:
    """``2^power`` for an int64 scalar within [-1022, 1023]. float64 scalar."""
    bits = tf.bitwise.left_shift(tf.cast(power, tf.int64) + _EXPONENT_BIAS, _EXPONENT_AT)
    return tf.bitcast(bits, tf.float64)
