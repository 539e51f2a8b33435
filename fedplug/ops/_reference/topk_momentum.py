"""The reference of `fedplug.ops.topk_momentum` in stock TensorFlow ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fedplug.ops._reference.traced import traced_once
from fedplug.ops._tensorflow.arguments import after, require, same_shape
from fedplug.ops._tensorflow.gradients import refuse_gradient

__all__ = ["topk_momentum"]


@traced_once
def topk_momentum(
    gradient: Any, momentum: Any, velocity: Any, residual: Any, topk: Callable[[Any, Any], Any]
) -> tuple[Any, ...]:
    """Computes the fields of the result of `fedplug.ops.topk_momentum`.

    ``topk`` is `topk_residual` of a delta and a residual, in the current lowering.
    """
    same = require(same_shape(gradient, velocity), "gradient and velocity must have the same shape")
    moved = after([same], momentum * velocity) + gradient
    taken = topk(moved, residual)
    moved = tf.where(tf.math.is_finite(residual + moved), moved, tf.zeros_like(moved))
    flat = tf.tensor_scatter_nd_update(
        tf.reshape(moved, [-1]), taken.indices[:, tf.newaxis], tf.zeros_like(taken.values)
    )
    moved = refuse_gradient(tf.ensure_shape(tf.reshape(flat, tf.shape(gradient)), gradient.shape))
    return taken.values, taken.indices, moved, taken.residual, taken.nonfinite
