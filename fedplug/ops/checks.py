"""Refusing hostile payloads inside a graph, where an exception cannot be raised."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fedplug.errors import PayloadError
from fedplug.ops._dispatch import Array, also_on_tensors

_PASSED: AbstractContextManager[Any] = nullcontext()

__all__ = ["of_length", "require"]


@also_on_tensors
def require(condition: Array, message: str) -> AbstractContextManager[Any]:
    """Makes a context whose tensors are computed only where the condition holds.

    The body must not prove the condition by itself: TensorFlow's constant folding takes
    ``tf.reshape(x, [n])`` as proof that ``x`` has n elements and drops a check of ``tf.size(x) == n``; slice,
    or use `tf.ensure_shape`.

    Otherwise a `tf.errors.InvalidArgumentError` with the message is raised when the graph runs (eagerly: at
    once).
    """
    if not condition:
        raise PayloadError(message)
    return _PASSED


@also_on_tensors
def of_length(data: Array, length: Array | int, what: str) -> Array:
    """``data``, a vector, where it has exactly ``length`` elements; ``what`` names it in the error.

    See `require` on what not to do with the result.
    """
    if data.size != length:
        raise PayloadError(f"{what} have the wrong length, {data.size}; there must be {length}")
    return data
