"""`fedplug.ops.chunked_topk` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_floats, as_int64, require_equal_shapes, require_wide
from fedplug.ops._tensorflow.reference import chunked_topk as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, ChunkedTopK, Scalar

__all__ = ["chunked_topk_residual"]


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
