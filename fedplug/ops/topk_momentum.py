"""Top-k sparsification with momentum correction, as in Deep Gradient Compression."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import place_for
from fedplug.ops.types import OnNonFinite, TopKMomentum

__all__ = ["topk_momentum", "topk_momentum_of_each"]


@also_on(tensors=lambda: _tensorflow.topk_momentum.topk_momentum)
def topk_momentum(
    gradient: Any,
    velocity: Any,
    residual: Any,
    k: Any,
    *,
    momentum: Any,
    on_nonfinite: OnNonFinite = "error",
    lowering: str | None = None,
) -> TopKMomentum:
    """Selects the ``k`` largest entries of ``a = residual + u``, ``u = momentum * velocity + gradient``.

    Each product and sum is rounded once. The new velocity is ``u`` and the new residual is ``a``, both with
    the selected entries set to zero (momentum factor masking). For denormal numbers see `topk_residual`.

    Source: Lin, Han, Mao, Wang, Dally, "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887), sections
    3.1 and 3.2.

    Args:
        gradient: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        velocity: The velocity of the round before; the shape and dtype of ``gradient``.
        residual: The residual of earlier rounds; the shape and dtype of ``gradient``.
        k: Number of entries to select, 0 or more; integer scalar.
        momentum: The factor of the old velocity; scalar, rounded to the dtype.
        on_nonfinite: See `topk_residual`. "drop" also sets the velocity to zero where ``a`` is not finite.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: ``k`` is negative, or the shapes differ.
        NonFiniteError: A sum is NaN or infinite, under "error".
        UnknownNameError: ``on_nonfinite`` has another value (in TensorFlow only).
    """
    speed, rest = place_for(velocity, gradient), place_for(residual, gradient)
    nonfinite = np.int64(0)
    if on_nonfinite == "drop":
        nonfinite = np.int64(
            kernels.count_nonfinite(velocity * gradient.dtype.type(momentum) + gradient, residual)
        )
    values, indices = kernels.topk_momentum(
        gradient,
        velocity,
        residual,
        k,
        momentum=momentum,
        on_nonfinite=on_nonfinite,
        velocity_out=None if speed is velocity else speed,
        residual_out=None if rest is residual else rest,
    )
    return TopKMomentum(values, indices, speed, rest, nonfinite)


topk_momentum_of_each = of_each(topk_momentum, "topk_momentum_of_each")
"""Does what `topk_momentum` does for each tensor of a list; on a device in one call."""
