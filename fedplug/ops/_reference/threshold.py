"""The reference of `fedplug.ops.threshold` in stock TensorFlow ops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._reference.traced import traced_once
from fedplug.ops._tensorflow.arguments import after, require, same_shape
from fedplug.ops._tensorflow.gradients import refuse_gradient

__all__ = ["threshold_residual"]


@traced_once
def threshold_residual(delta: Any, residual: Any, threshold: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    zero = tf.zeros([], delta.dtype)
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        require(threshold >= zero, "the threshold must be 0 or more"),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + residual, [-1]))
    finite = require(
        tf.reduce_all(tf.math.is_finite(a)),
        "sums of delta and residual are NaN or infinite; leave this update out",
    )
    a = after([finite], a)
    chosen = (tf.abs(a) >= threshold) & tf.not_equal(a, zero)
    indices = tf.cast(tf.where(chosen)[:, 0], tf.int32)
    rest = tf.reshape(tf.where(chosen, zero, a), tf.shape(delta))
    rest.set_shape(delta.shape)
    return tf.gather(a, indices), indices, rest
