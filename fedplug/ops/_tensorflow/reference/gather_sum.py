"""The reference of `fedplug.ops.gather_sum` in stock TensorFlow ops."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import after, require, same_shape
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["gather_sum", "take_from_sum"]


@traced_once
def gather_sum(addends: Sequence[tf.Tensor], indices: tf.Tensor) -> tf.Tensor:
    delta, *residual = addends
    checks = [require(same_shape(delta, x), "delta and residual must have the same shape") for x in residual]
    places = after([*checks, _inside(indices, tf.size(delta))], indices)
    values = tf.gather(tf.reshape(delta, [-1]), places)
    for x in residual:
        values = values + tf.gather(tf.reshape(x, [-1]), places)
    return refuse_gradient(values)


@traced_once
def take_from_sum(delta: tf.Tensor, residual: tf.Tensor, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        _inside(indices, tf.size(delta)),
        require(tf.reduce_all(indices[1:] > indices[:-1]), "the indices must ascend"),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + residual, [-1]))
    finite = require(
        tf.reduce_all(tf.math.is_finite(a)),
        "sums of delta and residual are NaN or infinite; leave this update out",
    )
    a = after([finite], a)
    zeros = tf.zeros(tf.shape(indices), a.dtype)
    rest = tf.reshape(tf.tensor_scatter_nd_update(a, indices[:, tf.newaxis], zeros), tf.shape(delta))
    rest.set_shape(delta.shape)
    return tf.gather(a, indices), rest


def _inside(indices: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    return require(tf.reduce_all((indices >= 0) & (indices < size)), "an index is not of an element")
