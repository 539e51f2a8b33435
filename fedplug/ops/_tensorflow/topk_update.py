"""`fedplug.ops.topk_update` on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from fedplug.errors import ArgumentError, DTypeError
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    after,
    as_floats,
    as_int64,
    require_equal_shapes,
    require_policy,
    require_variable,
    require_wide,
)
from fedplug.ops._tensorflow.topk import grouped_topk_residual, topk_residual
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import GroupedTopKUpdate, TopKUpdate

__all__ = ["grouped_topk_residual_update", "topk_residual_update"]


def topk_residual_update(
    residual: tf.Variable, delta: Any, k: Any, *, on_nonfinite: str = "error", lowering: str | None = None
) -> TopKUpdate:
    require_policy(on_nonfinite)
    (delta,) = _deltas_of([residual], [delta], [""])
    k = as_int64("k", k)
    if k.shape != []:
        raise ArgumentError(f"k must be a scalar, not of shape {k.shape}")
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_resource_top_k_residual
        values, indices, _, nonfinite = op([residual.handle], [delta], k, on_nonfinite=on_nonfinite)
        return TopKUpdate(values, indices, nonfinite)
    taken = topk_residual(delta, residual.read_value(), k, on_nonfinite=on_nonfinite, lowering="reference")
    assigned = _assign([residual], [taken.residual])
    return TopKUpdate(*(after(assigned, x) for x in (taken.values, taken.indices, taken.nonfinite)))


def grouped_topk_residual_update(
    residuals: Sequence[tf.Variable],
    deltas: Sequence[Any],
    k: Any,
    *,
    on_nonfinite: str = "error",
    lowering: str | None = None,
) -> GroupedTopKUpdate:
    require_policy(on_nonfinite)
    _require_a_delta_each(residuals, deltas)
    deltas = _deltas_of(residuals, deltas, [f" {t}" for t in range(len(deltas))])
    k = as_int64("k", k)
    if k.shape != [] and k.shape != [len(residuals)]:
        raise ArgumentError(
            f"k has shape {k.shape}; give one number for all of the {len(residuals)} tensors, or one for each"
        )
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_resource_top_k_residual
        return GroupedTopKUpdate(*op([r.handle for r in residuals], deltas, k, on_nonfinite=on_nonfinite))
    return _reference_of_group(residuals, deltas, k, on_nonfinite)


def _require_a_delta_each(residuals: Sequence[tf.Variable], deltas: Sequence[Any]) -> None:
    if not residuals or len(residuals) != len(deltas):
        raise ArgumentError(
            f"there are {len(residuals)} residuals and {len(deltas)} deltas; give at least one, and as many "
            "of these as of those"
        )
    if len({id(residual) for residual in residuals}) < len(residuals):
        raise ArgumentError("a residual is listed twice; one update can change a variable only once")


def _deltas_of(residuals: Sequence[tf.Variable], deltas: Sequence[Any], names: list[str]) -> list[tf.Tensor]:
    """Converts the deltas to tensors that fit the variables, which must have one dtype."""
    named = {f"residual{name}": residual for name, residual in zip(names, residuals, strict=True)}
    require_variable(**named)
    require_wide(**named)
    dtypes = sorted({residual.dtype.name for residual in residuals})
    if len(dtypes) > 1:
        raise DTypeError(f"the residuals must be of one dtype, not {' and '.join(dtypes)}")
    deltas = [
        as_floats(f"delta{name}", delta, residual.dtype)
        for name, delta, residual in zip(names, deltas, residuals, strict=True)
    ]
    for residual, delta, name in zip(residuals, deltas, names, strict=True):
        require_equal_shapes(**{f"delta{name}": delta, f"residual{name}": residual})
    return deltas


def _reference_of_group(residuals: Any, deltas: Any, k: Any, on_nonfinite: str) -> GroupedTopKUpdate:
    before = [residual.read_value() for residual in residuals]
    policy = {"on_nonfinite": on_nonfinite, "lowering": "reference"}
    if k.shape.rank == 0:
        taken = grouped_topk_residual(deltas, before, k, **policy)
        rest = taken.residuals
        found = taken.values, taken.indices, taken.row_splits, taken.nonfinite
    else:
        each = [
            topk_residual(d, b, k[t], **policy) for t, (d, b) in enumerate(zip(deltas, before, strict=True))
        ]
        rest = [taken.residual for taken in each]
        sizes = [tf.size(taken.values, tf.int64) for taken in each]
        found = (
            tf.concat([taken.values for taken in each], 0),
            tf.concat([taken.indices for taken in each], 0),
            tf.concat([[0], tf.cumsum(tf.stack(sizes))], 0),
            tf.add_n([taken.nonfinite for taken in each]),
        )
    assigned = _assign(residuals, rest)
    return GroupedTopKUpdate(*(after(assigned, x) for x in found))


def _assign(variables: Sequence[tf.Variable], values: Sequence[Any]) -> list[Any]:
    """Assigns all values, but only after all are computed: a refused one leaves all variables unchanged."""
    with tf.control_dependencies(list(values)):
        return [v.assign(value, read_value=False) for v, value in zip(variables, values, strict=True)]
