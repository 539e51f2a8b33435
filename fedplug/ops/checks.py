"""Checks that refuse invalid payloads and updates. In a graph they are assertions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

import fedplug.kernels as kernels
from fedplug.errors import NonFiniteError, PayloadError
from fedplug.kernels.arguments import whole
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

_PASSED: AbstractContextManager[object] = nullcontext()

__all__ = ["all_finite", "of_length", "require", "require_finite"]


@also_on(tensors=lambda: _tensorflow.checks.require)
def require(condition: Array | np.bool_ | bool, message: str) -> AbstractContextManager[object]:
    """Makes a context whose tensors are computed only if ``condition`` holds.

    The body must not imply the condition. TensorFlow takes ``tf.reshape(x, [n])`` as proof that ``x`` has n
    elements, and removes a check of ``tf.size(x) == n``. Use a slice or `tf.ensure_shape` instead.

    Raises:
        PayloadError: The condition does not hold. The error has ``message``.
    """
    if not condition:
        raise PayloadError(message)
    return _PASSED


@also_on(tensors=lambda: _tensorflow.checks.of_length)
def of_length(data: Array, length: Array | int, what: str) -> Array:
    """Returns the vector ``data`` if it has exactly ``length`` elements. ``what`` names it in the error.

    The last paragraph of `require` applies to the result.
    """
    if len(data) != whole("length", length):
        raise PayloadError(f"{what} have the wrong length, {len(data)}; there must be {length}")
    return data


@also_on(tensors=lambda: _tensorflow.checks.require_finite)
def require_finite(x: Array, what: str) -> Array:
    """Returns ``x`` if its elements are finite, for values that no kernel checks.

    A graph does not check: the process has checked the update before.

    Args:
        x: An array of floats.
        what: The name of ``x`` in the error.

    Raises:
        NonFiniteError: An element is NaN or infinite.
    """
    if not kernels.all_finite(np.asarray(x)):
        raise NonFiniteError(f"{what} holds a NaN or an infinity")
    return x


def sums_may_overflow() -> AbstractContextManager[None]:
    """Makes a context in which NumPy does not warn of infinite sums, because a later step refuses them."""
    return np.errstate(over="ignore", invalid="ignore")


@also_on(tensors=lambda: _tensorflow.checks.all_finite)
def all_finite(xs: Array | list[Array]) -> Array | bool:
    """Whether all elements of an array, or of all arrays of a non-empty list, are finite."""
    arrays = xs if isinstance(xs, list) else [xs]
    return all(kernels.all_finite(np.asarray(x)) for x in arrays)  # x may be a NumPy scalar
