"""`fedplug.ops.floats` on tensors."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["wide_dtype", "wide_spec", "widened"]


def wide_dtype(dtype: tf.DType) -> tf.DType:
    return tf.float64 if dtype == tf.float64 else tf.float32


def wide_spec(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec(spec.shape, wide_dtype(spec.dtype), spec.name)


def widened(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, wide_dtype(x.dtype))
