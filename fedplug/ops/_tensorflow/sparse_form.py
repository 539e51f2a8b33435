"""`fedplug.ops.sparse_form` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_bytes, as_int64, require_vectors
from fedplug.ops._tensorflow.reference import sparse_form as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, Scalar

__all__ = ["sparse_body", "split_sparse_body"]


def sparse_body(count: Scalar, index_code: Array, values: Array, *, lowering: str | None = None) -> tf.Tensor:
    count = as_int64("count", count)
    index_code = as_bytes("index_code", index_code)
    values = as_bytes("values", values)
    require_vectors(index_code=index_code, values=values)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_sparse_body(count, index_code, values)
    return reference.join(count, index_code, values)


def split_sparse_body(
    body: Array, size: Scalar, *, lowering: str | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    body = as_bytes("body", body)
    size = as_int64("size", size)
    require_vectors(body=body)
    if resolve_lowering(lowering) == "fused":
        count, index_code, values = loader.library().fedplug_split_sparse_body(body, size)
        return count, index_code, values
    return reference.split(body, size)
