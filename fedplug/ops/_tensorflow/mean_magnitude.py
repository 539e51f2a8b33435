"""`fedplug.ops.mean_magnitude` on tensors."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["mean_magnitude"]


def mean_magnitude(values: tf.Tensor) -> tf.Tensor:
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
