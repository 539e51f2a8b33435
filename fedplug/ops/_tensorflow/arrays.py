"""`fedplug.ops.arrays` on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow.arguments import as_floats, as_int64, as_integers, require_whole
from fedplug.ops._tensorflow.checks import require
from fedplug.ops.types import Array, DType, Scalar


def asarray(values: object, like: tf.Tensor) -> tf.Tensor:
    if like.dtype.is_integer:
        return as_integers("values", values, like.dtype)
    if like.dtype.is_floating:
        return as_floats("values", values, like.dtype)
    return tf.convert_to_tensor(values, like.dtype)


def zeros(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.zeros(spec.shape, spec.dtype)


def zeros_like(x: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(x)


def no_residual(x: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(x)


def size(x: tf.Tensor) -> tf.Tensor:
    return tf.size(x)


def identity(x: tf.Tensor) -> tf.Tensor:
    return tf.identity(x)


def astype(x: tf.Tensor, dtype: DType) -> tf.Tensor:
    return tf.cast(x, dtype)


def saturate_cast(x: tf.Tensor, dtype: DType) -> tf.Tensor:
    dtype = tf.as_dtype(dtype)
    return tf.cast(tf.clip_by_value(x, float(dtype.min), float(dtype.max)), dtype)


def reshape(x: tf.Tensor, shape: Sequence[Array]) -> tf.Tensor:
    return tf.reshape(x, shape)


def transpose(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x)


def ensure_shape(x: tf.Tensor, shape: Array) -> tf.Tensor:
    return tf.ensure_shape(x, shape)


def concat(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(arrays, axis=0)


def stack(arrays: Sequence[tf.Tensor], axis: int = 0) -> tf.Tensor:
    return tf.stack(arrays, axis)


def take(x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    require_whole(indices=indices)
    return tf.gather(x, indices)


def table_lookup(table: Sequence[Array], position: tf.Tensor, dtype: DType) -> tf.Tensor:
    place = tf.clip_by_value(as_int64("position", position), 0, len(table) - 1)
    return tf.gather(tf.constant(table, dtype), place)


def cond(condition: tf.Tensor, if_true: Callable[[], object], if_false: Callable[[], object]) -> tf.Tensor:
    return tf.cond(condition, if_true, if_false)


def add_residual(x: tf.Tensor, residual: tf.Tensor) -> tf.Tensor:
    return x + residual


def subtract(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x - y


def where(condition: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.where(condition, x, y)


def arange(end: Scalar, dtype: DType = "int64") -> tf.Tensor:
    dtype, count = tf.as_dtype(dtype), as_int64("end", end)
    with require(count <= tf.cast(dtype.max, tf.int64), f"the end of a range does not fit {dtype.name}"):
        return tf.range(tf.cast(count, dtype))


def repeat(x: tf.Tensor, times: int) -> tf.Tensor:
    return tf.repeat(x, whole("times", times, 0))


def multiply(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x * y


def minimum(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.minimum(x, y)


def maximum(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.maximum(x, y)


def clip(x: tf.Tensor, lowest: Array, highest: Array) -> tf.Tensor:
    return tf.clip_by_value(x, lowest, highest)


def floor(x: tf.Tensor) -> tf.Tensor:
    return tf.floor(x)


def round(x: tf.Tensor) -> tf.Tensor:
    return tf.round(x)


def add_n(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(list(arrays))


def sum(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x)


def sqrt(x: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(x)


def divide_no_nan(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(x, y)


def all(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(x)


def any(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(x)


def max(x: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    return tf.reduce_max(x, axis)


def cumulative_sum(x: tf.Tensor) -> tf.Tensor:
    return tf.cumsum(x, exclusive=True)


def argsort_descending(x: tf.Tensor) -> tf.Tensor:
    return tf.math.top_k(x, k=tf.size(x)).indices


def nonzero(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.reshape(tf.where(x), [-1]), tf.int32)


def segment_sum(x: tf.Tensor, segments: tf.Tensor, count: int) -> tf.Tensor:
    segments = as_int64("segments", segments)
    with require(tf.reduce_all(segments >= 0), "segments holds a negative number"):
        return tf.math.unsorted_segment_sum(x, segments, whole("count", count, 0))
