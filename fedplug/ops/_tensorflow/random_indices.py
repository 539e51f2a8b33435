"""`fedplug.ops.random_indices` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_int64
from fedplug.ops._tensorflow.reference import random_indices as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Scalar

__all__ = ["draw_indices"]


def draw_indices(seed: Scalar, count: Scalar, size: Scalar, *, lowering: str | None = None) -> tf.Tensor:
    seed, count, size = as_int64("seed", seed), as_int64("count", count), as_int64("size", size)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_draw_indices(seed, count, size)
    return reference.draw_indices(seed, count, size)
