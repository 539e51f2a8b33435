"""The reference of `fedplug.ops.chunked_topk` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import after, require, same_shape
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.reference.topk import magnitude_bits
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["chunked_topk_residual"]


@traced_once
def chunked_topk_residual(
    delta: tf.Tensor, residual: tf.Tensor, k: tf.Tensor, decay: tf.Tensor, chunk: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    zero, one = tf.zeros([], delta.dtype), tf.ones([], delta.dtype)
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        require(k >= 0, "k must be 0 or more", k),
        require((decay >= zero) & (decay <= one), "decay must be in [0, 1]"),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + decay * residual, [-1]))
    finite = require(
        tf.reduce_all(tf.math.is_finite(a)),
        "sums of delta and residual are NaN or infinite; leave this update out",
    )
    a = after([finite], a)
    indices = _largest_of_chunks(magnitude_bits(a), k, chunk)
    values = tf.gather(a, indices)
    rest = tf.tensor_scatter_nd_update(a, indices[:, tf.newaxis], tf.zeros_like(values))
    rest = tf.reshape(rest, tf.shape(delta))
    rest.set_shape(delta.shape)
    return values, indices, rest


def _largest_of_chunks(keys: tf.Tensor, k: tf.Tensor, chunk: int) -> tf.Tensor:
    """The indices of the k largest keys of every chunk, ascending."""
    size = tf.size(keys)
    width = tf.maximum(tf.minimum(size, chunk), 1)
    missing = -size % width
    rows = tf.reshape(tf.pad(keys, [[0, missing]], constant_values=-1), [-1, width])
    kept = tf.cast(tf.minimum(k, tf.cast(width, tf.int64)), tf.int32)
    columns = tf.math.top_k(rows, kept, sorted=False).indices
    places = columns + width * tf.range(tf.shape(rows)[0])[:, tf.newaxis]
    places = tf.sort(tf.reshape(places, [-1]))
    return places[: tf.reduce_sum(tf.cast(places < size, tf.int32))]
