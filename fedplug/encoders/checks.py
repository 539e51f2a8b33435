"""Refusing hostile payloads inside a graph, where an exception cannot be raised.

Knows TensorFlow; must not know any encoder.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

__all__ = ["require"]


def require(condition: tf.Tensor, message: str) -> AbstractContextManager[Any]:
    """Makes a context whose tensors are computed only where the condition holds.

    Otherwise a `tf.errors.InvalidArgumentError` with the message is raised when the graph runs (eagerly: at
    once).
    """
    context: AbstractContextManager[Any] = tf.control_dependencies(
        [tf.debugging.Assert(condition, [message])]
    )
    return context
