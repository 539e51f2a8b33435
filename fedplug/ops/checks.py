"""Refusing hostile payloads inside a graph, where an exception cannot be raised."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

__all__ = ["of_length", "require"]


def require(condition: tf.Tensor, message: str) -> AbstractContextManager[Any]:
    """Makes a context whose tensors are computed only where the condition holds.

    The body must not prove the condition by itself: TensorFlow's constant folding takes
    ``tf.reshape(x, [n])`` as proof that ``x`` has n elements and drops a check of ``tf.size(x) == n``; slice,
    or use `tf.ensure_shape`.

    Otherwise a `tf.errors.InvalidArgumentError` with the message is raised when the graph runs (eagerly: at
    once).
    """
    context: AbstractContextManager[Any] = tf.control_dependencies(
        [tf.debugging.Assert(condition, [message])]
    )
    return context


def of_length(data: tf.Tensor, length: tf.Tensor | int, what: str) -> tf.Tensor:
    """``data``, a vector, where it has exactly ``length`` elements; ``what`` names it in the error.

    See `require` on what not to do with the result.
    """
    message = f"{what} have the wrong length"
    if isinstance(length, int):
        message += f"; there must be {length}"
    fits = tf.equal(tf.size(data, tf.int64), tf.cast(length, tf.int64))
    with require(fits, message):
        return tf.identity(data)
