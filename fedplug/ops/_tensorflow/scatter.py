"""`fedplug.ops.scatter` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_floats,
    as_indices,
    as_int64,
    require_equal_shapes,
    require_floating,
    require_vectors,
)
from fedplug.ops._tensorflow.reference import scatter as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, Scalar

__all__ = ["scatter_decode", "scatter_decode_add"]


def scatter_decode_add(
    accumulator: Array,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    lowering: str | None = None,
) -> tf.Tensor:
    accumulator = tf.convert_to_tensor(accumulator)
    values = as_floats("values", values, accumulator.dtype)
    require_floating(accumulator=accumulator)
    payloads = _payloads(values, indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_scatter_decode_add(accumulator, *payloads)
    return reference.scatter_decode_add(accumulator, *payloads)


def scatter_decode(
    size: Scalar,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    lowering: str | None = None,
) -> tf.Tensor:
    size = as_int64("size", size)
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    payloads = _payloads(values, indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_scatter_decode(size, *payloads)
    return reference.scatter_decode(size, *payloads)


def _payloads(
    values: tf.Tensor, indices: tf.Tensor, row_splits: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Converts values, indices, row splits and weights to tensors, and checks their static shapes."""
    indices = as_indices("indices", indices)
    if row_splits is None:
        row_splits = tf.stack([tf.constant(0, tf.int64), tf.size(values, tf.int64)])
    row_splits = as_int64("row_splits", row_splits)
    require_vectors(values=values, indices=indices, row_splits=row_splits)
    require_equal_shapes(values=values, indices=indices)
    if weights is None:
        weights = tf.ones(tf.maximum(tf.shape(row_splits) - 1, 0), values.dtype)
    weights = as_floats("weights", weights, values.dtype)
    require_vectors(weights=weights)
    return values, indices, row_splits, weights
