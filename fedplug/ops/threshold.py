"""Threshold sparsification with error feedback."""

from __future__ import annotations

from typing import Any

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for
from fedplug.ops.types import AboveThreshold

__all__ = ["threshold_residual"]


@also_on(tensors=lambda: _tensorflow.threshold.threshold_residual)
def threshold_residual(
    delta: Any, residual: Any, threshold: Any, *, lowering: str | None = None
) -> AboveThreshold:
    """Takes the entries of ``a = delta + residual`` with ``|a| >= threshold``, and keeps the rest.

    Zeros are never taken. The residual is ``a`` with the entries taken set to zero, so scattering the values
    into it gives ``a`` back, bit for bit. Not differentiable. The compiled op keeps denormal numbers; the
    reference takes them for zero, as TensorFlow's threads do.

    Source: Strom, "Scalable Distributed DNN Training Using Commodity GPU Cloud Computing", Interspeech 2015.

    Args:
        delta: The update of this round; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        threshold: The smallest magnitude that is taken, 0 or more; scalar of that dtype.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``threshold`` is negative or NaN, the shapes differ, or a
            sum is not finite.
    """
    rest = place_for(residual, delta)
    values, indices = kernels.threshold_residual(
        delta, residual, threshold, residual_out=None if rest is residual else rest
    )
    return AboveThreshold(values, indices, rest)
