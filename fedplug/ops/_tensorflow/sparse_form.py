"""The body of a sparse payload, on TensorFlow tensors: see `fedplug.ops.sparse_form`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import as_int64, require_vectors
from fedplug.ops._reference import sparse_form as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["sparse_body", "split_sparse_body"]

tf.no_gradient("Fedplug>SparseBody")
tf.no_gradient("Fedplug>SplitSparseBody")


def sparse_body(count: Any, index_code: Any, values: Any, lowering: str | None) -> tf.Tensor:
    """See `fedplug.ops.sparse_body`."""
    count = as_int64(count)
    index_code = tf.convert_to_tensor(index_code, tf.uint8)
    values = tf.convert_to_tensor(values, tf.uint8)
    require_vectors(index_code=index_code, values=values)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_sparse_body(count, index_code, values)
    return reference.join(count, index_code, values)


def split_sparse_body(body: Any, size: Any, lowering: str | None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """See `fedplug.ops.split_sparse_body`."""
    body = tf.convert_to_tensor(body, tf.uint8)
    size = as_int64(size)
    require_vectors(body=body)
    if resolve_lowering(lowering) == "fused":
        count, index_code, values = _loader.library().fedplug_split_sparse_body(body, size)
        return count, index_code, values
    return reference.split(body, size)
