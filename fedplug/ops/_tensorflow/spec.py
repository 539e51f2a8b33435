"""`fedplug.ops.spec` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops.types import Array


def dtype(name: str) -> tf.DType:
    return tf.as_dtype(name)


def has_known_shape(spec: tf.TensorSpec) -> bool:
    return bool(spec.shape.is_fully_defined())


def spec_of(x: Array) -> tf.TensorSpec:
    return tf.TensorSpec(x.shape, x.dtype)


def itemsize(dtype: tf.DType) -> int:
    return int(dtype.size)


def is_floating(dtype: tf.DType) -> bool:
    return bool(dtype.is_floating)


def wide_dtype(dtype: tf.DType) -> tf.DType:
    return tf.float64 if dtype == tf.float64 else tf.float32


def wide_spec(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec(spec.shape, wide_dtype(spec.dtype), spec.name)


def widened(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, wide_dtype(x.dtype))
