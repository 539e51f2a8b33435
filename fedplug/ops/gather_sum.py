"""Entries of the sum of an update and its residual, at given indices."""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.checks import require_finite
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import place_for
from fedplug.ops.types import Array, TakenFromSum

__all__ = ["gather_finite_of_each", "gather_sum", "take_from_sum", "take_from_sum_of_each"]


@also_on(tensors=lambda: _tensorflow.gather_sum.gather_sum)
def gather_sum(delta: Array, residual: Array | None, indices: Array, *, lowering: str | None = None) -> Array:
    """Computes ``(delta + residual)[indices]``, and no other sum.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        residual: An array of the shape and dtype of ``delta``. None for zeros.
        indices: Flat indices in any order. int32 ``[k]``.
        lowering: See `fedplug.ops`.

    Returns:
        The sums, which need not be finite. ``[k]``, the dtype of ``delta``.

    Raises:
        ArgumentError: The shapes differ, or an index is out of range.
    """
    return kernels.gather_sum(delta, residual, whole_numbers("indices", indices, np.int32))


@also_on(tensors=lambda: _tensorflow.gather_sum.take_from_sum)
def take_from_sum(
    delta: Array, residual: Array | None, indices: Array, *, lowering: str | None = None
) -> TakenFromSum:
    """Takes the entries of ``a = delta + residual`` at ``indices``.

    The new residual is ``a`` with these entries set to zero: scattering the values into it restores ``a`` bit
    for bit. The compiled op keeps denormal numbers. The reference flushes them to zero, as TensorFlow does.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        residual: The residual of earlier rounds. The shape and dtype of ``delta``.
        indices: Flat indices, strictly ascending. int32 ``[k]``.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: The shapes differ, or the indices are out of range or do not ascend.
        NonFiniteError: A sum is NaN or infinite.
    """
    rest = place_for(residual, delta)
    places = whole_numbers("indices", indices, np.int32)
    values = kernels.take_from_sum(delta, residual, places, residual_out=None if rest is residual else rest)
    return TakenFromSum(values, rest)


take_from_sum_of_each = of_each(take_from_sum, "take_from_sum_of_each")
"""Applies `take_from_sum` to each tensor of a list; on a device in one call."""


def _gather_finite(x: Array, indices: Array) -> Array:
    return gather_sum(require_finite(x, "the update"), None, indices)


gather_finite_of_each = of_each(_gather_finite, "gather_finite_of_each")
"""Returns the entries of each update at its indices; on a device in one call.

Raises NonFiniteError if an update holds a NaN or an infinity.
"""
