"""Entries of the sum of an update and its residual, at places that are already known."""

from __future__ import annotations

from typing import Any

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for
from fedplug.ops.types import Array, TakenFromSum

__all__ = ["gather_sum", "take_from_sum"]


@also_on(tensors=lambda: _tensorflow.gather_sum.gather_sum)
def gather_sum(delta: Any, residual: Any, indices: Any, *, lowering: str | None = None) -> Array:
    """``(delta + residual)[indices]``, where only these sums are computed. Not differentiable.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or float16.
        residual: Shape and dtype of ``delta``; None: nothing is added.
        indices: Places in the flattened update, in any order; int32 ``[k]``.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The sums, which need not be finite. Shape ``[k]``, the dtype of ``delta``.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes differ, or an index is not of an element.
    """
    return kernels.gather_sum(delta, residual, indices)


@also_on(tensors=lambda: _tensorflow.gather_sum.take_from_sum)
def take_from_sum(delta: Any, residual: Any, indices: Any, *, lowering: str | None = None) -> TakenFromSum:
    """Takes the entries of ``a = delta + residual`` at ``indices``, and keeps the rest.

    The residual is ``a`` with the entries taken set to zero, so scattering the values into it gives ``a``
    back, bit for bit. Not differentiable. Of denormals `threshold_residual` says what holds here.

    Args:
        delta: The update of this round; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        indices: Places in the flattened update, strictly ascending; int32 ``[k]``.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes differ, an index is not of an element or not
            above the one before, or a sum is not finite.
    """
    rest = place_for(residual, delta)
    values = kernels.take_from_sum(delta, residual, indices, residual_out=None if rest is residual else rest)
    return TakenFromSum(values, rest)
