"""`fedplug.ops.topk_momentum` on tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._reference import topk_momentum as reference
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_floats,
    as_int64,
    require_equal_shapes,
    require_policy,
    require_wide,
)
from fedplug.ops._tensorflow.topk import topk_residual
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import TopKMomentum

__all__ = ["topk_momentum"]


def topk_momentum(
    gradient: Any,
    velocity: Any,
    residual: Any,
    k: Any,
    *,
    momentum: Any,
    on_nonfinite: str = "error",
    lowering: str | None = None,
) -> TopKMomentum:
    require_policy(on_nonfinite)
    gradient = tf.convert_to_tensor(gradient)
    velocity = as_floats("velocity", velocity, gradient.dtype)
    residual = as_floats("residual", residual, gradient.dtype)
    momentum = as_floats("momentum", momentum, gradient.dtype)
    require_wide(gradient=gradient)
    require_equal_shapes(gradient=gradient, velocity=velocity)
    require_equal_shapes(gradient=gradient, residual=residual)
    k = as_int64("k", k)
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_top_k_momentum
        return TopKMomentum(*op(gradient, momentum, velocity, residual, k, on_nonfinite=on_nonfinite))

    def topk(delta: Any, before: Any) -> Any:
        return topk_residual(delta, before, k, on_nonfinite=on_nonfinite, lowering="reference")

    return TopKMomentum(*reference.topk_momentum(gradient, momentum, velocity, residual, topk))
