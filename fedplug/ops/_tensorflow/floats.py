"""`fedplug.ops.floats` on tensors."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["wide_dtype", "widened"]


def wide_dtype(dtype: tf.DType) -> tf.DType:
    return tf.float64 if dtype == tf.float64 else tf.float32


def widened(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, wide_dtype(x.dtype))
