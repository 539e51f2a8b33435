"""`fedplug.ops.topk` on tensors."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from fedplug.errors import ArgumentError, DTypeError
from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_floats,
    as_int64,
    require_equal_shapes,
    require_policy,
    require_wide,
)
from fedplug.ops._tensorflow.reference import topk as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, ChunkedTopK, GroupedTopK, Scalar, TopK

__all__ = ["chunked_topk_residual", "grouped_topk_residual", "topk_residual"]


def topk_residual(
    delta: Array, residual: Array, k: Scalar, *, on_nonfinite: str = "error", lowering: str | None = None
) -> TopK:
    require_policy(on_nonfinite)
    delta = tf.convert_to_tensor(delta)
    residual = as_floats("residual", residual, delta.dtype)
    require_wide(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    k = as_int64("k", k)
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_grouped_top_k_residual
        taken = GroupedTopK(*op([delta], [residual], k, on_nonfinite=on_nonfinite))
        return TopK(taken.values, taken.indices, taken.residuals[0], taken.nonfinite)
    return TopK(*reference.topk_residual(delta, residual, k, on_nonfinite))


def grouped_topk_residual(
    deltas: Sequence[Array],
    residuals: Sequence[Array],
    k: Scalar,
    *,
    on_nonfinite: str = "error",
    lowering: str | None = None,
) -> GroupedTopK:
    require_policy(on_nonfinite)
    if not deltas or len(deltas) != len(residuals):
        raise ArgumentError(
            f"there are {len(deltas)} deltas and {len(residuals)} residuals; give at least one, and as many "
            "of these as of those"
        )
    deltas = [tf.convert_to_tensor(delta) for delta in deltas]
    residuals = [
        as_floats(f"residual {t}", residual, delta.dtype)
        for t, (residual, delta) in enumerate(zip(residuals, deltas, strict=True))
    ]
    dtypes = sorted({delta.dtype.name for delta in deltas})
    if len(dtypes) > 1:
        raise DTypeError(f"the deltas must be of one dtype, not {' and '.join(dtypes)}")
    for t, (delta, residual) in enumerate(zip(deltas, residuals, strict=True)):
        require_wide(**{f"delta {t}": delta})
        require_equal_shapes(**{f"delta {t}": delta, f"residual {t}": residual})
    k = as_int64("k", k)
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_grouped_top_k_residual
        return GroupedTopK(*op(deltas, residuals, k, on_nonfinite=on_nonfinite))
    return GroupedTopK(*reference.grouped_topk_residual(deltas, residuals, k, on_nonfinite))


def chunked_topk_residual(
    delta: Array, residual: Array, k: Scalar, *, chunk: int, decay: Scalar, lowering: str | None = None
) -> ChunkedTopK:
    delta = tf.convert_to_tensor(delta)
    residual = as_floats("residual", residual, delta.dtype)
    require_wide(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    k, decay = as_int64("k", k), as_floats("decay", decay, delta.dtype)
    chunk = whole("chunk", chunk)
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be 1 or more")
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_chunked_top_k_residual
        return ChunkedTopK(*op(delta, residual, k, decay, chunk=chunk))
    return ChunkedTopK(*reference.chunked_topk_residual(delta, residual, k, decay, chunk))
