"""`fedplug.ops.arrays` on tensors.

Functions whose arguments TensorFlow's own takes in the same order are that function.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow.arguments import as_floats, as_int64, as_integers, require_whole
from fedplug.ops._tensorflow.checks import require
from fedplug.ops.types import Array, DType, Scalar

zeros_like = tf.zeros_like
no_residual = tf.zeros_like
size = tf.size
identity = tf.identity
astype = tf.cast
reshape = tf.reshape
transpose = tf.transpose
ensure_shape = tf.ensure_shape
stack = tf.stack
cond = tf.cond
add_residual = operator.add
subtract = operator.sub
where = tf.where
multiply = operator.mul
minimum = tf.minimum
maximum = tf.maximum
clip = tf.clip_by_value
floor = tf.floor
round = tf.round
sum = tf.reduce_sum
sqrt = tf.sqrt
divide_no_nan = tf.math.divide_no_nan
all = tf.reduce_all
any = tf.reduce_any
max = tf.reduce_max
add_n = tf.add_n


def asarray(values: object, like: tf.Tensor) -> tf.Tensor:
    if like.dtype.is_integer:
        return as_integers("values", values, like.dtype)
    if like.dtype.is_floating:
        return as_floats("values", values, like.dtype)
    return tf.convert_to_tensor(values, like.dtype)


def zeros(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.zeros(spec.shape, spec.dtype)


def saturate_cast(x: tf.Tensor, dtype: DType) -> tf.Tensor:
    dtype = tf.as_dtype(dtype)
    return tf.cast(tf.clip_by_value(x, float(dtype.min), float(dtype.max)), dtype)


def concat(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(arrays, axis=0)


def take(x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    require_whole(indices=indices)
    return tf.gather(x, indices)


def table_lookup(table: Sequence[Array], position: tf.Tensor, dtype: DType) -> tf.Tensor:
    place = tf.clip_by_value(as_int64("position", position), 0, len(table) - 1)
    return tf.gather(tf.constant(table, dtype), place)


def arange(end: Scalar, dtype: DType = "int64") -> tf.Tensor:
    dtype, count = tf.as_dtype(dtype), as_int64("end", end)
    with require(count <= tf.cast(dtype.max, tf.int64), f"the end of a range does not fit {dtype.name}"):
        return tf.range(tf.cast(count, dtype))


def repeat(x: tf.Tensor, times: int) -> tf.Tensor:
    return tf.repeat(x, whole("times", times, 0))


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
