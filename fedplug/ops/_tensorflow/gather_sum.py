"""`fedplug.ops.gather_sum` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_floats, as_indices, require_equal_shapes, require_wide
from fedplug.ops._tensorflow.reference import gather_sum as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, TakenFromSum

__all__ = ["gather_sum", "take_from_sum"]


def gather_sum(delta: Array, residual: Array, indices: Array, *, lowering: str | None = None) -> tf.Tensor:
    delta = tf.convert_to_tensor(delta)
    require_wide(delta=delta)
    addends = [delta]
    if residual is not None:
        addends.append(as_floats("residual", residual, delta.dtype))
        require_equal_shapes(delta=delta, residual=addends[1])
    indices = as_indices("indices", indices)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_gather_sum(addends, indices)
    return reference.gather_sum(addends, indices)


def take_from_sum(
    delta: Array, residual: Array, indices: Array, *, lowering: str | None = None
) -> TakenFromSum:
    delta = tf.convert_to_tensor(delta)
    residual = as_floats("residual", residual, delta.dtype)
    indices = as_indices("indices", indices)
    require_wide(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    if resolve_lowering(lowering) == "fused":
        return TakenFromSum(*loader.library().fedplug_take_from_sum(delta, residual, indices))
    return TakenFromSum(*reference.take_from_sum(delta, residual, indices))
