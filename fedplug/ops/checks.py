"""Refusing hostile payloads, also inside a graph, where an exception cannot be raised; and bad updates."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.errors import NonFiniteError, PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

_PASSED: AbstractContextManager[Any] = nullcontext()

__all__ = ["of_length", "require", "require_finite", "sums_may_overflow"]


@also_on(tensors=lambda: _tensorflow.checks.require)
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


@also_on(tensors=lambda: _tensorflow.checks.of_length)
def of_length(data: Array, length: Array | int, what: str) -> Array:
    """``data``, a vector, where it has exactly ``length`` elements; ``what`` names it in the error.

    See `require` on what not to do with the result.
    """
    if data.size != length:
        raise PayloadError(f"{what} have the wrong length, {data.size}; there must be {length}")
    return data


@also_on(tensors=lambda: _tensorflow.checks.require_finite)
def require_finite(x: Array, what: str) -> Array:
    """``x``; for what no op on the way looks at. In a graph it is not checked: the process has done it.

    Args:
        x: Of floats.
        what: Names it in the error.

    Raises:
        NonFiniteError: An element is NaN or infinite.
    """
    if not kernels.all_finite(np.asarray(x)):
        raise NonFiniteError(f"{what} holds a NaN or an infinity")
    return x


def sums_may_overflow() -> AbstractContextManager[None]:
    """Within the ``with`` block NumPy warns of no sum that is infinite: that is refused later."""
    return np.errstate(over="ignore", invalid="ignore")
