"""Threshold sparsification with error feedback."""

from __future__ import annotations

from typing import Any

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import place_for
from fedplug.ops.types import AboveThreshold

__all__ = ["threshold_residual", "threshold_residual_of_each"]


@also_on(tensors=lambda: _tensorflow.threshold.threshold_residual)
def threshold_residual(
    delta: Any, residual: Any, threshold: Any, *, lowering: str | None = None
) -> AboveThreshold:
    """Selects the entries of ``a = delta + residual`` with ``|a| >= threshold``.

    Zeros are never selected. The new residual is ``a`` with the selected entries set to zero: scattering the
    values into it restores ``a`` bit for bit. The compiled op keeps denormal numbers; the reference flushes
    them to zero, as TensorFlow does.

    Source: Strom, "Scalable Distributed DNN Training Using Commodity GPU Cloud Computing", Interspeech 2015.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        residual: The residual of earlier rounds; the shape and dtype of ``delta``.
        threshold: The smallest selected magnitude, 0 or more; scalar of the dtype.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: ``threshold`` is negative or NaN, or the shapes differ.
        NonFiniteError: A sum is NaN or infinite.
    """
    rest = place_for(residual, delta)
    values, indices = kernels.threshold_residual(
        delta, residual, threshold, residual_out=None if rest is residual else rest
    )
    return AboveThreshold(values, indices, rest)


threshold_residual_of_each = of_each(threshold_residual, "threshold_residual_of_each")
"""Does what `threshold_residual` does for each tensor of a list; on a device in one call."""
