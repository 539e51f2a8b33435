"""Run-time checks for the twins, which raise what the compiled ops raise. Must not know any op."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["after", "as_int64", "require", "same_shape"]


def require(condition: Any, message: str, *details: Any) -> Any:
    """Raises `tf.errors.InvalidArgumentError` with ``message`` and ``details`` unless ``condition`` holds.

    In a graph the result is an operation for `after`; eagerly the check has been made when this returns.
    """
    return tf.raw_ops.Assert(condition=condition, data=[tf.constant(message), *details], summarize=8)


def after(checks: list[Any], tensor: Any) -> Any:
    """``tensor``, which in a graph exists only once ``checks`` have passed."""
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(tensor)


def as_int64(value: Any) -> Any:
    """``value``, a Python int or an integer tensor of any width, as an int64 tensor."""
    return tf.cast(value, tf.int64) if tf.is_tensor(value) else tf.convert_to_tensor(value, tf.int64)


def same_shape(x: Any, y: Any) -> Any:
    """Whether two tensors have the same shape; scalar, bool."""
    # Behind the ranks, because comparing [2] with [2, 2] would broadcast and find them equal.
    x_shape, y_shape = (tf.concat([[tf.rank(t)], tf.shape(t)], 0) for t in (x, y))
    return tf.reduce_all(tf.raw_ops.Equal(x=x_shape, y=y_shape, incompatible_shape_error=False))
