"""`fedplug.ops.finite` on tensors, with the references of both ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_int64, require_whole
from fedplug.ops._tensorflow.checks import of_length, require
from fedplug.ops._tensorflow.serialization import from_bytes
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import DType

__all__ = ["all_finite", "finite_from_bytes"]


def all_finite(xs: tf.Tensor | list[tf.Tensor]) -> tf.Tensor:
    xs = [tf.convert_to_tensor(x) for x in (xs if isinstance(xs, list) else [xs])]
    if resolve_lowering() == "fused":
        return loader.library().fedplug_all_finite(xs)
    return _all_finite(xs)


def finite_from_bytes(data: tf.Tensor, count: tf.Tensor | int, dtype: DType) -> tf.Tensor:
    require_whole(count=count)
    dtype = tf.as_dtype(dtype)
    if resolve_lowering() == "fused":
        return loader.library().fedplug_finite_from_bytes(data, as_int64("count", count), T=dtype)
    values = from_bytes(of_length(data, count * dtype.size, "the bytes of raw values"), dtype)
    with require(_all_finite([values]), "a raw value is NaN or infinite"):
        return tf.identity(values)


def _all_finite(xs: list[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in xs])
