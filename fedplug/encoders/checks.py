"""Refusing hostile payloads inside a graph, where an exception cannot be raised.

Knows TensorFlow; must not know any encoder.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

__all__ = ["require"]


def require(condition: tf.Tensor, message: str) -> AbstractContextManager[Any]:
    """``with require(condition, message):`` runs the tensors made in its body only where the condition holds.

    Otherwise a `tf.errors.InvalidArgumentError` with the message is raised when the graph runs (eagerly: at once).
    """
    return tf.control_dependencies([tf.debugging.Assert(condition, [message])])
