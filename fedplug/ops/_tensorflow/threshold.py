"""`fedplug.ops.threshold` on tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._reference import threshold as reference
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_floats, require_equal_shapes, require_wide
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import AboveThreshold

__all__ = ["threshold_residual"]


def threshold_residual(
    delta: Any, residual: Any, threshold: Any, *, lowering: str | None = None
) -> AboveThreshold:
    delta = tf.convert_to_tensor(delta)
    residual = as_floats("residual", residual, delta.dtype)
    threshold = as_floats("threshold", threshold, delta.dtype)
    require_wide(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    if resolve_lowering(lowering) == "fused":
        return AboveThreshold(*loader.library().fedplug_threshold_residual(delta, residual, threshold))
    return AboveThreshold(*reference.threshold_residual(delta, residual, threshold))
