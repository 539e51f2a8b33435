"""A sum with the same bits on any number of threads, SIMD level and device."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["mean_magnitude"]


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
