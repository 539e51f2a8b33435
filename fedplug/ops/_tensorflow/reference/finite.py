"""The reference of `fedplug.ops.finite` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.checks import of_length, require
from fedplug.ops._tensorflow.serialization import from_bytes

__all__ = ["all_finite", "finite_from_bytes"]


def all_finite(xs: list[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in xs])


def finite_from_bytes(data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> tf.Tensor:
    values = from_bytes(of_length(data, count * dtype.size, "the bytes of raw values"), dtype)
    with require(all_finite([values]), "a raw value is NaN or infinite"):
        return tf.identity(values)
